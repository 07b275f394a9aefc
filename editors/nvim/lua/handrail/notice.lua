--- Tells the person something in one line, without ever waiting for a key.
---
--- Invariants: a message fits the screen and takes the place of the one before, so that Neovim never asks to press
--- Enter; what was cut is kept whole for `:Handrail messages`; no command text is told here.
local config = require("handrail.config")
local text = require("handrail.text")

local M = {}

local KEPT = 100
local MORE = " … :Handrail messages"

local focused = true

--- The last messages, whole.
M.history = {} ---@type string[]

--- Watch whether Neovim has the focus; terminals that do not tell count as having it.
function M.watch_focus()
  local group = vim.api.nvim_create_augroup("handrail.focus", {})
  vim.api.nvim_create_autocmd({ "FocusGained", "FocusLost" }, {
    group = group,
    callback = function(event)
      focused = event.event == "FocusGained"
    end,
  })
end

---@param message string
---@param level? integer
function M.say(message, level)
  local line = text.row("Handrail: " .. message)
  M.history[#M.history + 1] = os.date("%H:%M:%S ") .. line
  if #M.history > KEPT then
    table.remove(M.history, 1)
  end
  local room = vim.o.columns - 14
  if vim.api.nvim_strwidth(line) > room then
    line = vim.fn.strcharpart(line, 0, room - #MORE) .. MORE
  end
  vim.cmd.redraw()
  vim.notify(line, level or vim.log.levels.INFO)
end

---@param message string
function M.warn(message)
  M.say(message, vim.log.levels.WARN)
end

--- Tell something that the person may be waiting for, also if they look elsewhere.
---@param message string
function M.call(message)
  local settings = config.get()
  if settings.notify then
    M.say(message)
  end
  if focused then
    return
  end
  if settings.bell then
    io.stderr:write("\a")
  end
  if settings.on_away then
    local well, problem = pcall(settings.on_away, message)
    if not well then
      M.warn("on_away failed: " .. tostring(problem))
    end
  end
end

return M
