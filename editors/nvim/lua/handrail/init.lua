--- Handrail in Neovim: an agent works in your project, you see every command and decide.
---
--- Invariants: loading this starts no process and opens no window.
local approvals = require("handrail.approvals")
local client = require("handrail.client")
local config = require("handrail.config")
local editor = require("handrail.editor")
local notice = require("handrail.notice")
local sessions = require("handrail.session")
local text = require("handrail.text")
local view = require("handrail.view")

local M = {}

local TICK_MS = 1000

local ticking ---@type uv.uv_timer_t?

--- Take a configuration; not needed if vim.g.handrail says it, or the defaults do.
---@param given? table
function M.setup(given)
  config.set(given or {})
  local problem = config.check()
  if problem then
    notice.warn(problem .. " (defaults hold; :help handrail-config)")
  end
end

--- A few words for a status line.
---@return string
function M.statusline()
  return require("handrail.status").line()
end

--- Run a subcommand of `:Handrail`, for mappings.
---@param words string
function M.command(words)
  require("handrail.commands").run({ args = words, range = 0 })
end

---@param session handrail.Session
---@param before handrail.Snapshot
local function tell_turn_end(session, before)
  local snapshot = session.snapshot
  if before.state == snapshot.state or snapshot.state ~= "idle" then
    return
  end
  vim.api.nvim_exec_autocmds("User", {
    pattern = "HandrailTurnEnd",
    modeline = false,
    data = { session = session.id, stopReason = snapshot.stopReason },
  })
  if snapshot.stopReason ~= "cancelled" then
    local reason = snapshot.stopReason and view.meaning("StopReason", snapshot.stopReason) or "at rest"
    notice.call(("%s (%s)"):format(reason, text.place(snapshot.cwd)))
  end
end

local function executing()
  for _, session in pairs(sessions.all) do
    if session.snapshot.state == "executing" and not session.lost then
      return true
    end
  end
  return false
end

local function tick()
  if not executing() and ticking then
    ticking:close()
    ticking = nil
    return
  end
  for _, session in pairs(sessions.all) do
    if vim.api.nvim_buf_is_valid(session.buffer) then
      session.transcript:tick()
    end
  end
end

local function keep_time()
  if executing() and not ticking then
    ticking = assert(vim.uv.new_timer())
    ticking:start(TICK_MS, TICK_MS, vim.schedule_wrap(tick))
  end
end

---@param name string of a file
---@return boolean
local function in_a_session(name)
  for _, session in pairs(sessions.all) do
    if vim.fs.relpath(text.path(session.snapshot.cwd), name) then
      return true
    end
  end
  return false
end

---@param buffer integer
local function attach(buffer)
  if vim.api.nvim_buf_is_valid(buffer) and in_a_session(vim.api.nvim_buf_get_name(buffer)) then
    client.attach(buffer)
  end
end

local function attach_all()
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    attach(buffer)
  end
end

---@param session handrail.Session
---@param before handrail.Snapshot
local function changed(session, before)
  if before == session.snapshot then
    attach_all()
  end
  approvals.refresh(session)
  editor.refresh(session, before)
  tell_turn_end(session, before)
  keep_time()
  vim.cmd.redrawstatus({ bang = true })
end

local function define_colours()
  local links = {
    HandrailTitle = "Title",
    HandrailStep = "Title",
    HandrailPrompt = "Question",
    HandrailCommand = "Statement",
    HandrailOutput = "Normal",
    HandrailQuiet = "Comment",
    HandrailGood = "DiagnosticOk",
    HandrailBad = "DiagnosticError",
    HandrailRunning = "DiagnosticInfo",
    HandrailWaiting = "DiagnosticWarn",
    HandrailWarning = "DiagnosticWarn",
  }
  for name, link in pairs(links) do
    vim.api.nvim_set_hl(0, name, { link = link, default = true })
  end
end

local function connect()
  client.on_update = sessions.receive
  client.on_stream = sessions.stream
  client.on_lost = sessions.lose
  client.on_back = function()
    sessions.load_again(function()
      notice.say("the server had ended and was started again; what ran is told as interrupted")
    end)
  end
  sessions.listeners = { changed }
  define_colours()
  notice.watch_focus()
  local group = vim.api.nvim_create_augroup("handrail", {})
  vim.api.nvim_create_autocmd("ColorScheme", { group = group, callback = define_colours })
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile", "BufFilePost" }, {
    group = group,
    callback = function(event)
      attach(event.buf)
    end,
  })
end

connect()

return M
