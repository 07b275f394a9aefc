--- The window of a session: how it is opened, its keys, its bar, its folds.
---
--- Invariants: keys are local to the session's buffer; nothing of the text is hidden but by the person's own folds.
local approvals = require("handrail.approvals")
local compose = require("handrail.compose")
local config = require("handrail.config")
local methods = require("handrail.protocol").methods
local notice = require("handrail.notice")
local sessions = require("handrail.session")
local text = require("handrail.text")
local view = require("handrail.view")

local M = {}

--- The fold level of a row, for 'foldexpr': one fold for each step.
---@param row integer from 1
---@return string
function M.fold(row)
  local line = vim.fn.getline(row)
  if line:find("^Step %d+$") then
    return ">1"
  end
  return row <= 2 and "0" or "1"
end

--- What the bar above the session says, for 'winbar'.
---@return string
function M.bar()
  local session = sessions.all[vim.b.handrail_session or ""]
  if not session then
    return "Handrail"
  end
  local snapshot = session.snapshot
  local parts = { "mode " .. text.row(snapshot.mode) }
  parts[#parts + 1] = #snapshot.queued > 0 and #snapshot.queued .. " queued" or nil
  parts[#parts + 1] = view.usage(snapshot)
  local group = snapshot.state == "awaiting_approval" and "%#HandrailWaiting#" or ""
  local alarm = snapshot.mode == "trusted" and "%#HandrailWarning#" or ""
  local doing = session.lost and "server lost" or view.activity(snapshot)
  local line = " " .. doing .. " · " .. table.concat(parts, " · ")
  return group .. alarm .. line:gsub("%%", "%%%%") .. "%<%*"
end

--- Open a buffer for the next prompt.
---@param session handrail.Session
---@param words? string what it holds to begin with
function M.prompt(session, words)
  local unfinished = view.UNFINISHED[session.snapshot.stopReason or ""] and " (an empty one goes on)" or ""
  compose.open({
    name = "handrail://" .. session.id .. "/prompt",
    filetype = "markdown",
    lines = text.lines(words or ""),
    height = 6,
    hint = "Handrail: what is to be done? :w sends" .. unfinished .. " · q leaves",
    insert = words == nil,
    send = function(prompt)
      prompt = vim.trim(prompt)
      sessions.step(session, prompt ~= "" and prompt or nil, vim.NIL)
    end,
  })
end

--- Show the whole output of the command under the cursor.
---@param session handrail.Session
local function output(session)
  local call = session.transcript:call_at(vim.api.nvim_win_get_cursor(0)[1] - 1)
  local uri = call and call.result and call.result.outputUri
  if not uri then
    return notice.say("all of its output is here, or there is no command here")
  end
  vim.cmd.split({ args = { vim.fn.fnameescape(text.path(uri)) }, mods = { keepalt = true } })
  vim.bo.readonly, vim.bo.modifiable = true, false
end

---@param session handrail.Session
local function map_keys(session)
  local keys = config.get().keys
  local function map(name, action)
    if keys[name] then
      vim.keymap.set("n", keys[name], action, { buffer = session.buffer, nowait = true, desc = "Handrail: " .. name })
    end
  end
  map("review", approvals.review)
  map("close", function()
    if #vim.api.nvim_tabpage_list_wins(0) > 1 then
      vim.api.nvim_win_close(0, false)
    else
      vim.cmd.bprevious()
    end
  end)
  map("prompt", function()
    M.prompt(session)
  end)
  map("cancel", function()
    sessions.ask(session, methods.session_cancel)
  end)
  map("output", function()
    output(session)
  end)
  map("help", function()
    vim.cmd.help("handrail-keys")
  end)
end

---@param window integer
local function set_options(window)
  local options = {
    wrap = true,
    linebreak = true,
    breakindent = true,
    number = false,
    relativenumber = false,
    signcolumn = "no",
    list = false,
    spell = false,
    conceallevel = 0,
    foldmethod = "expr",
    foldexpr = "v:lua.require'handrail.window'.fold(v:lnum)",
    foldlevel = 99,
    foldtext = "",
    winbar = "%{%v:lua.require'handrail.window'.bar()%}",
  }
  for name, value in pairs(options) do
    vim.api.nvim_set_option_value(name, value, { win = window, scope = "local" })
  end
end

--- Show a session and go there; only ever called on a person's command.
---@param session handrail.Session
function M.open(session)
  local window = vim.fn.bufwinid(session.buffer)
  if window == -1 then
    local how = config.get().window
    if type(how) == "function" then
      window = how(session.buffer)
    else
      vim.cmd(how)
      window = vim.api.nvim_get_current_win()
    end
    vim.api.nvim_win_set_buf(window, session.buffer)
    set_options(window)
    map_keys(session)
  end
  vim.api.nvim_set_current_win(window)
  vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(session.buffer), 0 })
end

return M
