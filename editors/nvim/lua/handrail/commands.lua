--- `:Handrail` and its subcommands, with completion.
---
--- Invariants: a subcommand about what waits acts only on what is shown, and shows it otherwise.
local approvals = require("handrail.approvals")
local client = require("handrail.client")
local config = require("handrail.config")
local listing = require("handrail.listing")
local methods = require("handrail.protocol").methods
local notice = require("handrail.notice")
local sessions = require("handrail.session")
local window = require("handrail.window")

local M = {}

local MODES = { "ask", "rules", "plan", "trusted" }

---@class handrail.Given
---@field words string everything after the subcommand
---@field context? handrail.ContextItem[] the lines of a range

---@class handrail.Subcommand
---@field run fun(given: handrail.Given)
---@field complete? fun(): string[]

---@param act fun(session: handrail.Session, given: handrail.Given)
---@return fun(given: handrail.Given)
local function with_session(act)
  return function(given)
    local session = sessions.current()
    if not session then
      return notice.warn("there is no session: :Handrail start PROMPT")
    end
    act(session, given)
  end
end

---@param given handrail.Given
local function start(given)
  sessions.new(vim.fn.getcwd(), nil, function(session)
    window.open(session)
    if given.words ~= "" then
      sessions.step(session, given.words, vim.NIL, given.context)
    else
      window.prompt(session)
    end
  end)
end

---@param max_steps integer|vim.NIL
---@return fun(given: handrail.Given)
local function stepping(max_steps)
  return function(given)
    local prompt = given.words ~= "" and given.words or nil
    local session = sessions.current()
    if session then
      return sessions.step(session, prompt, max_steps, given.context)
    end
    if not prompt then
      return start(given)
    end
    sessions.new(vim.fn.getcwd(), nil, function(opened)
      window.open(opened)
      sessions.step(opened, prompt, max_steps, given.context)
    end)
  end
end

---@param method string
---@return handrail.Subcommand
local function asking(method)
  return {
    run = with_session(function(session)
      sessions.ask(session, method)
    end),
  }
end

---@param act fun(reason?: string)
---@return handrail.Subcommand
local function deciding(act)
  return {
    run = function(given)
      act(given.words ~= "" and given.words or nil)
    end,
  }
end

---@param session handrail.Session
---@param given handrail.Given
local function mode(session, given)
  if not vim.tbl_contains(MODES, given.words) then
    return notice.warn("the mode is " .. session.snapshot.mode .. "; others are " .. table.concat(MODES, ", "))
  end
  sessions.ask(session, methods.session_configure, { settings = { mode = given.words } })
end

---@param session handrail.Session
---@param given handrail.Given
local function export(session, given)
  client.request(methods.session_export, { sessionId = session.id }, function(problem, answer)
    if problem then
      return notice.warn(problem.message)
    end
    local file = vim.fn.fnamemodify(given.words ~= "" and given.words or session.id .. ".json", ":p")
    local done, why = pcall(vim.fn.writefile, vim.split(answer.text, "\n", { plain = true }), file)
    notice.say(done and "written to " .. file or "not written: " .. tostring(why))
  end)
end

---@param session handrail.Session
---@param given handrail.Given
local function withdraw(session, given)
  local prompt = session.snapshot.queued[tonumber(given.words) or 1]
  if not prompt then
    return notice.say("no prompt is queued")
  end
  sessions.ask(session, methods.session_queue, { withdraw = prompt.promptId })
end

---@param session handrail.Session
local function detach(session)
  for _, call in ipairs(session.snapshot.step and session.snapshot.step.calls or {}) do
    if call.status == "running" then
      return sessions.ask(session, methods.session_detach, { callId = call.callId })
    end
  end
  notice.say("no command runs")
end

local function log()
  vim.cmd.split({ args = { vim.fn.fnameescape(vim.lsp.log.get_filename()) } })
  vim.cmd.normal({ "G", bang = true })
end

local function messages()
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, notice.history)
  vim.api.nvim_open_win(buffer, true, { split = "below", win = -1, height = 10 })
end

---@type table<string, handrail.Subcommand>
M.subcommands = {
  start = { run = start },
  step = { run = stepping(1) },
  run = { run = stepping(vim.NIL) },
  review = { run = approvals.review },
  approve = { run = approvals.approve },
  edit = { run = approvals.edit },
  reject = deciding(approvals.reject),
  stop = deciding(approvals.stop),
  cancel = asking(methods.session_cancel),
  compact = asking(methods.session_compact),
  close = { run = with_session(sessions.close) },
  detach = { run = with_session(detach) },
  withdraw = { run = with_session(withdraw) },
  export = { run = with_session(export) },
  open = { run = with_session(window.open) },
  shell = {
    run = with_session(function(session, given)
      sessions.ask(session, methods.session_run, { command = given.words })
    end),
  },
  mode = {
    run = with_session(mode),
    complete = function()
      return MODES
    end,
  },
  sessions = { run = listing.open },
  resume = {
    run = function(given)
      if given.words == "" then
        return listing.open()
      end
      sessions.load(given.words, window.open)
    end,
    complete = listing.ids,
  },
  log = { run = log },
  messages = { run = messages },
  quit = { run = client.stop },
  demo = {
    run = function()
      require("handrail.demo").run()
    end,
  },
}

---@param command table as Neovim gives it
---@return handrail.ContextItem[]?
local function context(command)
  local name = vim.api.nvim_buf_get_name(0)
  if command.range == 0 or name == "" or vim.bo.buftype ~= "" then
    return nil
  end
  local lines = vim.api.nvim_buf_get_lines(0, command.line1 - 1, command.line2, false)
  return {
    {
      kind = "selection",
      uri = vim.uri_from_fname(name),
      firstLine = command.line1,
      lastLine = command.line2,
      text = table.concat(lines, "\n"),
    },
  }
end

--- Run `:Handrail`.
---@param command table as Neovim gives it
function M.run(command)
  local name, words = command.args:match("^%s*(%S*)%s*(.-)%s*$")
  name = name == "" and (sessions.current() and "open" or "start") or name
  local subcommand = M.subcommands[name]
  if not subcommand then
    local near = config.nearest(name, vim.tbl_keys(M.subcommands))
    return notice.warn(("there is no `:Handrail %s`%s"):format(name, near and ", did you mean " .. near .. "?" or ""))
  end
  subcommand.run({ words = words, context = context(command) })
end

--- Complete `:Handrail`.
---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local words = vim.split(vim.trim(line:gsub("^.-Handrail%s*", "")), "%s+")
  local candidates
  if #words > 1 or (words[1] ~= "" and line:find("%s$")) then
    local subcommand = M.subcommands[words[1]]
    candidates = subcommand and subcommand.complete and subcommand.complete() or {}
  else
    candidates = vim.tbl_keys(M.subcommands)
  end
  candidates = vim.tbl_filter(function(each)
    return vim.startswith(each, lead)
  end, candidates)
  table.sort(candidates)
  return candidates
end

return M
