--- Small real buffers for a person's words: a prompt, an edited command, a reason. `:w` sends them.
---
--- Invariants: nothing is sent but by `:w` (and Enter in normal mode where the words are one line); leaving sends
--- nothing. What was withdrawn while the person types stays until they stop typing, and can no longer be sent.
local notice = require("handrail.notice")

local M = {}

---@class handrail.Composition
---@field name string of the buffer
---@field filetype string
---@field lines string[]
---@field height integer
---@field hint string what `:w` does
---@field insert? boolean begin in insert mode
---@field send fun(words: string): boolean? false keeps the buffer

---@class handrail.Composer
---@field buffer integer
---@field window integer
---@field back integer the window to go back to
---@field private over boolean

---@param composer handrail.Composer
local function leave(composer)
  local here = vim.api.nvim_get_current_buf() == composer.buffer
  if vim.api.nvim_win_is_valid(composer.window) and #vim.api.nvim_list_wins() > 1 then
    vim.api.nvim_win_close(composer.window, true)
  end
  if vim.api.nvim_buf_is_valid(composer.buffer) then
    vim.api.nvim_buf_delete(composer.buffer, { force = true })
  end
  if here and vim.api.nvim_win_is_valid(composer.back) then
    vim.api.nvim_set_current_win(composer.back)
  end
end

---@param composer handrail.Composer
---@param composition handrail.Composition
local function send(composer, composition)
  if composer.over then
    return notice.warn("withdrawn; nothing is sent")
  end
  local words = table.concat(vim.api.nvim_buf_get_lines(composer.buffer, 0, -1, false), "\n")
  vim.bo[composer.buffer].modified = false
  if composition.send(words) ~= false then
    composer.over = true
    vim.cmd.stopinsert()
    vim.schedule(function()
      leave(composer)
    end)
  end
end

--- Open a buffer for words and go there; only ever called on a person's key.
---@param composition handrail.Composition
---@return handrail.Composer
function M.open(composition)
  local back = vim.api.nvim_get_current_win()
  local buffer = vim.api.nvim_create_buf(false, false)
  vim.api.nvim_buf_set_name(buffer, composition.name)
  vim.bo[buffer].buftype = "acwrite"
  vim.bo[buffer].bufhidden = "wipe"
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].undofile = false
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, composition.lines)
  vim.bo[buffer].modified = false
  local window = vim.api.nvim_open_win(buffer, true, { split = "below", win = -1, height = composition.height })
  vim.bo[buffer].filetype = composition.filetype
  vim.wo[window].winfixheight = true
  vim.wo[window].winbar = composition.hint:gsub("%%", "%%%%")
  local composer = { buffer = buffer, window = window, back = back, over = false }
  vim.api.nvim_create_autocmd("BufWriteCmd", {
    buffer = buffer,
    callback = function()
      send(composer, composition)
    end,
  })
  vim.keymap.set("n", "q", function()
    leave(composer)
  end, { buffer = buffer, nowait = true, desc = "Handrail: close without sending" })
  if composition.insert then
    vim.cmd.startinsert()
  end
  return composer
end

--- Take a buffer back: at once, or as soon as the person stops typing in it.
---@param composer handrail.Composer
function M.withdraw(composer)
  if composer.over or not vim.api.nvim_buf_is_valid(composer.buffer) then
    return
  end
  composer.over = true
  local typing = vim.api.nvim_get_current_buf() == composer.buffer and vim.fn.mode():find("^[iR]")
  if not typing then
    return leave(composer)
  end
  vim.wo[composer.window].winbar = "withdrawn: it waits no longer; nothing is sent"
  vim.api.nvim_create_autocmd("InsertLeave", {
    buffer = composer.buffer,
    once = true,
    callback = vim.schedule_wrap(function()
      leave(composer)
    end),
  })
end

return M
