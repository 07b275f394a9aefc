--- Writes blocks of rows into a buffer that nobody else writes to.
---
--- Invariants: rows are inserted, replaced one at a time, or taken out; the buffer is never redrawn whole. A window
--- follows the end only if its cursor is there. Blocks never mix: what is added to one stays together.
local marks = vim.api.nvim_create_namespace("handrail.blocks")
local colours = vim.api.nvim_create_namespace("handrail.colours")
local status = vim.api.nvim_create_namespace("handrail.status")

---@class handrail.Block
---@field mark integer extmark on the last row
---@field rows integer

---@class handrail.Paper
---@field buffer integer
---@field private empty boolean
local Paper = {}
Paper.__index = Paper

---@param buffer integer
---@return handrail.Paper
function Paper.new(buffer)
  return setmetatable({ buffer = buffer, empty = true }, Paper)
end

---@param first integer row, from 0
---@param last integer row after the last
---@param rows handrail.Row[]
function Paper:write(first, last, rows)
  local following = self:following()
  local lines = {}
  for at, row in ipairs(rows) do
    lines[at] = row[1]
  end
  vim.bo[self.buffer].modifiable = true
  vim.api.nvim_buf_set_lines(self.buffer, first, last, false, lines)
  vim.bo[self.buffer].modifiable = false
  vim.bo[self.buffer].modified = false
  for at, row in ipairs(rows) do
    self:colour(first + at - 1, row)
  end
  local count = vim.api.nvim_buf_line_count(self.buffer)
  for _, window in ipairs(following) do
    vim.api.nvim_win_set_cursor(window, { count, 0 })
  end
end

---@param at integer row, from 0
---@param row handrail.Row
function Paper:colour(at, row)
  if row[2] and row[1] ~= "" then
    local options = { end_col = #row[1], hl_group = row[2], priority = 100 }
    vim.api.nvim_buf_set_extmark(self.buffer, colours, at, 0, options)
  end
  for _, span in ipairs(row.spans or {}) do
    local options = { end_col = math.min(span[2], #row[1]), hl_group = span[3], priority = 110 }
    vim.api.nvim_buf_set_extmark(self.buffer, colours, at, span[1], options)
  end
end

--- The windows whose cursor is at the end.
---@return integer[]
function Paper:following()
  local count = vim.api.nvim_buf_line_count(self.buffer)
  return vim.tbl_filter(function(window)
    return vim.api.nvim_win_get_cursor(window)[1] == count
  end, vim.fn.win_findbuf(self.buffer))
end

--- Write a block at the end.
---@param rows handrail.Row[] at least one
---@return handrail.Block
function Paper:block(rows)
  local first = self.empty and 0 or vim.api.nvim_buf_line_count(self.buffer)
  self:write(first, -1, rows)
  self.empty = false
  local mark = vim.api.nvim_buf_set_extmark(self.buffer, marks, first + #rows - 1, 0, {})
  return { mark = mark, rows = #rows }
end

--- The first and the last row of a block, from 0.
---@param block handrail.Block
---@return integer, integer
function Paper:place(block)
  local last = vim.api.nvim_buf_get_extmark_by_id(self.buffer, marks, block.mark, {})[1]
  return last - block.rows + 1, last
end

--- Write rows at the end of a block.
---@param block handrail.Block
---@param rows handrail.Row[]
function Paper:add(block, rows)
  if #rows == 0 then
    return
  end
  local _, last = self:place(block)
  self:write(last + 1, last + 1, rows)
  block.rows = block.rows + #rows
  vim.api.nvim_buf_set_extmark(self.buffer, marks, last + #rows, 0, { id = block.mark })
end

--- Write another row in the place of one of a block's.
---@param block handrail.Block
---@param at integer from 0; -1 is the last
---@param row handrail.Row
function Paper:set(block, at, row)
  local first, last = self:place(block)
  local place = at < 0 and last or first + at
  vim.api.nvim_buf_clear_namespace(self.buffer, colours, place, place + 1)
  self:write(place, place + 1, { row })
  if place == last then
    vim.api.nvim_buf_set_extmark(self.buffer, marks, last, 0, { id = block.mark })
  end
end

--- Take rows out of a block; its last row stays.
---@param block handrail.Block
---@param at integer from 0
---@param count integer
function Paper:take_out(block, at, count)
  local first = self:place(block)
  vim.api.nvim_buf_clear_namespace(self.buffer, colours, first + at, first + at + count)
  self:write(first + at, first + at + count, {})
  block.rows = block.rows - count
end

--- Show a few words beside a block's first row.
---@param block handrail.Block
---@param words string
---@param group string
function Paper:note(block, words, group)
  local first = self:place(block)
  local options = { id = block.mark, virt_text = { { "  " .. words, group } }, hl_mode = "combine", priority = 120 }
  vim.api.nvim_buf_set_extmark(self.buffer, status, first, 0, options)
end

--- Forget everything that was written.
function Paper:clear()
  for _, namespace in ipairs({ marks, colours, status }) do
    vim.api.nvim_buf_clear_namespace(self.buffer, namespace, 0, -1)
  end
  self:write(0, -1, { { "" } })
  self.empty = true
end

return Paper
