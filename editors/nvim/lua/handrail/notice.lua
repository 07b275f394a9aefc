--- Tells the person something in one line, without ever waiting for a key.
---
--- Invariants: a message fits the screen, so that Neovim never asks to press Enter; no command text is told here.
local config = require("handrail.config")

local M = {}

local focused = true

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
  local line = "Handrail: " .. message:gsub("%s+", " ")
  local room = vim.o.columns - 14
  if vim.api.nvim_strwidth(line) > room then
    line = vim.fn.strcharpart(line, 0, room - 1) .. "…"
  end
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
