--- Tells that commands wait, shows one at a time on the person's key, and sends what they decide.
---
--- Invariants: nothing is shown and no key is taken before the person asks; nothing but the keys of the review decides,
--- never Enter, Escape, a closed window or time; a decision repeats the digest that was shown; a long command can be
--- approved only after its end was in sight; what waits no longer is taken away at once.
local compose = require("handrail.compose")
local config = require("handrail.config")
local editor = require("handrail.editor")
local float = require("handrail.float")
local methods = require("handrail.protocol").methods
local notice = require("handrail.notice")
local queue = require("handrail.queue")
local sessions = require("handrail.session")
local text = require("handrail.text")

local M = {}

---@class handrail.Shown
---@field waiting handrail.Waiting
---@field float handrail.Float
---@field at integer when it was shown (ms)
---@field sending boolean
---@field remember integer 0: nothing; 1: exact; then the proposed rules
---@field composer? handrail.Composer

local shown ---@type handrail.Shown?
local announced = {} ---@type table<string, true>

--- What an approval may remember, in words.
---@param call handrail.Call
---@return string[] values, string[] words
local function memories(call)
  local values, words = { "exact" }, { "exactly this command, for this session" }
  for _, rule in ipairs(call.proposedRules) do
    values[#values + 1] = rule.words
    words[#words + 1] = "every `" .. text.row(rule.words) .. "`, for this session"
  end
  return values, words
end

---@param call handrail.Call
---@return string
local function choices(call)
  local keys = config.get().keys
  local words = {}
  for _, name in ipairs({ "approve", "edit", "reject", "stop", "remember", "write_all", "later" }) do
    if keys[name] and (name ~= "write_all" or #call.unsavedFiles > 0) then
      words[#words + 1] = keys[name] .. " " .. name:gsub("_", " ")
    end
  end
  return table.concat(words, "  ")
end

---@param given handrail.Shown
local function tell_choices(given)
  local call = given.waiting.call
  if call.long and not float.sees_end(given.float) then
    return float.choices(given.float, "scroll to the end (G) to approve  " .. choices(call), "HandrailWarning")
  end
  float.choices(given.float, choices(call))
end

---@param given handrail.Shown
local function draw(given)
  local _, words = memories(given.waiting.call)
  local more = #queue.all(sessions.list()) - 1
  float.show(given.float, given.waiting, words[given.remember] or "", more)
  tell_choices(given)
end

---@param given handrail.Shown
---@return boolean
local function is_composing(given)
  return given.composer ~= nil and vim.api.nvim_buf_is_valid(given.composer.buffer)
end

---@param given handrail.Shown
local function withdraw(given)
  shown = nil
  float.close(given.float)
  if given.composer then
    compose.withdraw(given.composer)
  end
end

---@param given handrail.Shown
---@param waiting handrail.Waiting
local function show(given, waiting)
  given.waiting, given.at, given.sending, given.remember = waiting, vim.uv.now(), false, 0
  draw(given)
end

--- Go on to what else waits in the session, or take the review away.
---@param given handrail.Shown
local function advance(given)
  local following = queue.of(given.waiting.session)[1]
  if following and not is_composing(given) and float.is_open(given.float) then
    show(given, following)
  else
    withdraw(given)
  end
end

---@param given handrail.Shown
---@param decision handrail.Decision|table what is said beside call and digest
---@return boolean sent
local function send(given, decision)
  local waiting = given.waiting
  if given.sending then
    return false
  end
  given.sending = true
  decision.callId, decision.digest = waiting.call.callId, waiting.call.digest
  float.choices(given.float, "sending …")
  sessions.ask(waiting.session, methods.session_decide, { decisions = { decision } }, function(problem)
    given.sending = false
    if problem then
      notice.warn(problem.message)
    end
    if problem and not waiting.session.lost then
      sessions.ask(waiting.session, methods.session_get, {}, function() end)
    end
    if shown == given and queue.still(waiting) and float.is_open(given.float) then
      draw(given)
    end
  end)
  return true
end

--- What is shown and may be decided now.
---@return handrail.Shown?
local function decidable()
  if shown and not shown.sending and queue.still(shown.waiting) and float.is_open(shown.float) then
    return shown
  end
end

--- Approve what is shown, unless it was shown only just now or its end was not seen.
function M.approve()
  local given = decidable()
  if not given then
    return M.review()
  end
  if vim.uv.now() - given.at < config.get().settle_ms then
    return
  end
  if given.waiting.call.long and not float.sees_end(given.float) then
    return notice.warn("this command is long: look at its end first (G)")
  end
  local values = memories(given.waiting.call)
  send(given, { decision = "approve", remember = values[given.remember] })
end

--- Write the files that the command touches, then approve.
function M.write_all()
  local given = decidable()
  if given and editor.write(given.waiting.call.unsavedFiles) then
    M.approve()
  end
end

--- Say what else an approval would remember: nothing, exactly this, or a rule.
function M.remember()
  local given = decidable()
  if given then
    given.remember = (given.remember + 1) % (#memories(given.waiting.call) + 1)
    draw(given)
  end
end

---@param given handrail.Shown
---@param composition table
local function composing(given, composition)
  composition.send = function(words)
    if not queue.still(given.waiting) then
      notice.warn("this command waits no longer; nothing was sent")
      return true
    end
    given.composer = nil
    return composition.said(words)
  end
  given.composer = compose.open(composition)
end

--- Open the command in a buffer; `:w` approves what is written there instead.
function M.edit()
  local given = decidable()
  if not given then
    return M.review()
  end
  local call = given.waiting.call
  composing(given, {
    name = ("handrail://%s/%s/command"):format(given.waiting.session.id, call.callId),
    filetype = "sh",
    lines = text.lines(call.command),
    height = math.min(15, call.lineCount + 2),
    hint = "Handrail: :w runs this text instead · q leaves without deciding",
    said = function(command)
      if command == call.command then
        return send(given, { decision = "approve" })
      end
      return send(given, { decision = "approve_edited", command = command })
    end,
  })
end

--- Reject what is shown; without a reason a buffer asks for one.
---@param reason? string
function M.reject(reason)
  local given = decidable()
  if not given then
    return M.review()
  end
  if reason then
    send(given, { decision = "reject", reason = reason })
    return
  end
  composing(given, {
    name = ("handrail://%s/%s/reason"):format(given.waiting.session.id, given.waiting.call.callId),
    filetype = "markdown",
    lines = { "" },
    height = 3,
    hint = "Handrail: why not? :w rejects and tells the model · q leaves without deciding",
    insert = true,
    said = function(words)
      local told = vim.trim(words)
      return send(given, { decision = "reject", reason = told ~= "" and told or nil })
    end,
  })
end

--- Reject what is shown and all else that waits in its session, and end the turn.
---@param reason? string
function M.stop(reason)
  local given = decidable()
  if not given then
    return M.review()
  end
  send(given, { decision = "stop", reason = reason })
end

--- Leave it for later; it keeps waiting.
function M.later()
  if shown then
    withdraw(shown)
  end
end

---@param given handrail.Shown
local function map_keys(given)
  local keys = config.get().keys
  local actions = { approve = M.approve, edit = M.edit, stop = M.stop, remember = M.remember, later = M.later }
  actions.write_all = M.write_all
  actions.reject = function()
    M.reject()
  end
  actions.stop = function()
    M.stop()
  end
  local function map(key, action, name)
    vim.keymap.set("n", key, action, { buffer = given.float.buffer, nowait = true, desc = "Handrail: " .. name })
  end
  for _, key in ipairs({ "<CR>", "<Space>" }) do
    map(key, "<Nop>", "nothing")
  end
  map("<Esc>", M.later, "later")
  for name, action in pairs(actions) do
    if keys[name] then
      map(keys[name], action, name)
    end
  end
end

---@param given handrail.Shown
local function watch(given)
  vim.api.nvim_create_autocmd("WinScrolled", {
    buffer = given.float.buffer,
    callback = function()
      if shown == given and not given.sending then
        tell_choices(given)
      end
    end,
  })
  vim.api.nvim_create_autocmd("WinClosed", {
    pattern = tostring(given.float.window),
    once = true,
    callback = function()
      if shown == given and not is_composing(given) then
        shown = nil
      end
    end,
  })
end

--- Show the first command that waits; those of the current session come first.
function M.review()
  if shown and float.is_open(shown.float) then
    return vim.api.nvim_set_current_win(shown.float.window)
  end
  local waiting = queue.all(sessions.list(), sessions.current())[1]
  if not waiting then
    return notice.say("no command waits")
  end
  vim.cmd.stopinsert()
  local given = { float = float.open() } ---@type handrail.Shown
  shown = given
  map_keys(given)
  watch(given)
  show(given, waiting)
end

--- How many commands wait, in all sessions.
---@return integer
function M.count()
  return #queue.all(sessions.list())
end

---@param waiting handrail.Waiting
local function announce(waiting)
  local call, session = waiting.call, waiting.session
  local position = call.count > 1 and (" (%d of %d)"):format(call.position, call.count) or ""
  notice.call(("a command waits for you%s in %s; :Handrail review"):format(position, text.place(session.snapshot.cwd)))
  vim.api.nvim_exec_autocmds("User", {
    pattern = "HandrailWaiting",
    modeline = false,
    data = { session = session.id, call = call.callId, position = call.position, count = call.count },
  })
end

---@param session handrail.Session
local function may_open(session)
  local here = vim.api.nvim_get_current_buf() == session.buffer and vim.api.nvim_get_mode().mode == "n"
  return here and config.get().auto_review
end

--- Take a change of a session: announce what waits newly, take away what waits no longer.
---@param session handrail.Session
function M.refresh(session)
  local waiting = queue.of(session)
  local fresh = vim.tbl_filter(function(each)
    return not announced[queue.key(each)]
  end, waiting)
  for _, each in ipairs(fresh) do
    announced[queue.key(each)] = true
  end
  local given = shown
  if given and given.waiting.session == session and not queue.still(given.waiting) then
    local ours = given.sending
    advance(given)
    if not ours and not session.lost then
      notice.say("that command waits no longer; nothing was decided here")
    end
  end
  if #fresh > 0 and not (shown and shown.waiting.session == session) then
    announce(fresh[1])
    if may_open(session) then
      M.review()
    end
  end
end

return M
