--- The window that shows one waiting command, all of it, with what a person should know.
---
--- Invariants: the command is the last thing shown, folded to the width, so that scrolling by lines reaches its end;
--- the choices stay in the border however long it is; nothing here decides.
local text = require("handrail.text")
local view = require("handrail.view")

local M = {}

local colours = vim.api.nvim_create_namespace("handrail.review")

---@class handrail.Float
---@field buffer integer
---@field window integer
---@field back integer the window to go back to
---@field private rows integer

---@param rows handrail.Row[]
---@param width integer
---@return handrail.Row[]
local function folded(rows, width)
  local all = {}
  for _, row in ipairs(rows) do
    for _, piece in ipairs(text.fold(row[1], width)) do
      all[#all + 1] = { piece, row[2] }
    end
  end
  return all
end

---@param waiting handrail.Waiting
---@param remembered string what an approval would also remember
---@param width integer
---@return handrail.Row[]
local function content(waiting, remembered, width)
  local rows = folded(view.facts(waiting.call), width)
  if remembered ~= "" then
    vim.list_extend(rows, folded({ { "approving also remembers: " .. remembered, "HandrailWaiting" } }, width))
  end
  rows[#rows + 1] = { "" }
  return vim.list_extend(rows, view.command(waiting.call, width))
end

---@return integer, integer
local function room()
  return math.max(20, math.min(100, vim.o.columns - 4)), math.max(4, math.floor((vim.o.lines - 4) * 0.7))
end

--- Open the window and go there; only ever called on a person's key.
---@return handrail.Float
function M.open()
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  vim.bo[buffer].filetype = "handrail-review"
  local back = vim.api.nvim_get_current_win()
  local width, height = room()
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = "editor",
    width = width,
    height = height,
    row = math.max(0, math.floor((vim.o.lines - height) / 2) - 2),
    col = math.floor((vim.o.columns - width) / 2),
    style = "minimal",
    border = "rounded",
  })
  vim.wo[window].wrap = false
  vim.wo[window].cursorline = false
  vim.wo[window].scrolloff = 0
  return { buffer = buffer, window = window, back = back, rows = 0 }
end

---@param float handrail.Float
---@param waiting handrail.Waiting
---@param remembered string
---@param more integer how many others wait
function M.show(float, waiting, remembered, more)
  local width, height = room()
  local rows = content(waiting, remembered, width)
  local lines = vim.tbl_map(function(row)
    return row[1]
  end, rows)
  vim.bo[float.buffer].modifiable = true
  vim.api.nvim_buf_set_lines(float.buffer, 0, -1, false, lines)
  vim.bo[float.buffer].modifiable = false
  for at, row in ipairs(rows) do
    if row[2] and #row[1] > 0 then
      vim.api.nvim_buf_set_extmark(float.buffer, colours, at - 1, 0, { end_col = #row[1], hl_group = row[2] })
    end
  end
  float.rows = #rows
  local position = view.position(waiting.call)
  local parts = { "Handrail", text.place(waiting.session.snapshot.cwd) }
  parts[#parts + 1] = position ~= "" and position or nil
  parts[#parts + 1] = more > 0 and ("%d more waiting"):format(more) or nil
  vim.api.nvim_win_set_config(float.window, {
    height = math.min(height, #rows),
    title = " " .. table.concat(parts, " · ") .. " ",
  })
  vim.api.nvim_win_set_cursor(float.window, { 1, 0 })
end

--- Say in the border what can be done.
---@param float handrail.Float
---@param words string
---@param group? string
function M.choices(float, words, group)
  if M.is_open(float) then
    local footer = { { " " .. words .. " ", group or "FloatFooter" } }
    vim.api.nvim_win_set_config(float.window, { footer = footer })
  end
end

--- Whether the end of the command is in sight.
---@param float handrail.Float
---@return boolean
function M.sees_end(float)
  return vim.fn.line("w$", float.window) >= float.rows
end

---@param float handrail.Float
---@return boolean
function M.is_open(float)
  return vim.api.nvim_win_is_valid(float.window)
end

--- Close the window and go back to where the person was.
---@param float handrail.Float
function M.close(float)
  local here = vim.api.nvim_get_current_win() == float.window
  if M.is_open(float) then
    vim.api.nvim_win_close(float.window, true)
  end
  if here and vim.api.nvim_win_is_valid(float.back) then
    vim.api.nvim_set_current_win(float.back)
  end
end

return M
