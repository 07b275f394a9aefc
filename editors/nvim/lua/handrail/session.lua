--- The open sessions: their snapshots, their drawings, and the requests about them.
---
--- Invariants: a snapshot older than the one we have changes nothing; what we show comes from snapshots and the record
--- alone; nothing is ever decided here.
local Transcript = require("handrail.transcript")
local client = require("handrail.client")
local config = require("handrail.config")
local methods = require("handrail.protocol").methods
local notice = require("handrail.notice")
local text = require("handrail.text")
local view = require("handrail.view")

local M = {}

local PAGE = 50

---@class handrail.Session
---@field id string
---@field snapshot handrail.Snapshot
---@field buffer integer
---@field transcript handrail.Transcript
---@field catching_up boolean
---@field lost boolean whether its server is gone
---@field closed boolean whether the person let go of it

---@type table<string, handrail.Session>
M.all = {}
--- Called after every change of a session, with the snapshot before it.
---@type fun(session: handrail.Session, before: handrail.Snapshot)[]
M.listeners = {}

local last ---@type string?

---@param session handrail.Session
local function draw(session)
  if session.catching_up or not vim.api.nvim_buf_is_valid(session.buffer) then
    return
  end
  local from = session.transcript:missed_from(session.snapshot)
  if not from then
    return session.transcript:take(session.snapshot)
  end
  session.catching_up = true
  local params = { sessionId = session.id, fromStep = math.max(from, 1), limit = PAGE }
  client.request(methods.session_transcript, params, function(problem, page)
    session.catching_up = false
    if problem or not vim.api.nvim_buf_is_valid(session.buffer) then
      return
    end
    for _, step in ipairs(page.steps) do
      if step.index < session.snapshot.step.index then
        session.transcript:take_step(step, true)
      end
    end
    if #page.steps > 0 then
      draw(session)
    end
  end)
end

---@param session handrail.Session
---@param snapshot handrail.Snapshot
local function take(session, snapshot)
  local before = session.snapshot
  session.snapshot = snapshot
  draw(session)
  for _, listener in ipairs(M.listeners) do
    listener(session, before)
  end
end

--- Take a snapshot, from an answer or a notification.
---@param snapshot handrail.Snapshot
function M.receive(snapshot)
  local session = M.all[snapshot.sessionId]
  if session and snapshot.revision >= session.snapshot.revision then
    take(session, snapshot)
  end
end

--- Take a piece of streamed text.
---@param piece handrail.StreamParams
function M.stream(piece)
  local session = M.all[piece.sessionId]
  if session and not session.catching_up and vim.api.nvim_buf_is_valid(session.buffer) then
    session.transcript:stream(piece)
  end
end

---@param id string
---@return integer
local function make_buffer(id)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, "handrail://" .. text.row(id))
  vim.b[buffer].handrail_session = id
  vim.bo[buffer].bufhidden = "hide"
  vim.bo[buffer].undolevels = -1
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = "handrail"
  return buffer
end

--- Register a session and draw it into a buffer of its own.
---@param snapshot handrail.Snapshot
---@return handrail.Session
local function open(snapshot)
  local session = M.all[snapshot.sessionId]
  if session and vim.api.nvim_buf_is_valid(session.buffer) then
    session.lost, session.closed = false, false
    last = session.id
    take(session, snapshot)
    return session
  end
  local buffer = make_buffer(snapshot.sessionId)
  session = { id = snapshot.sessionId, snapshot = snapshot, buffer = buffer, transcript = Transcript.new(buffer) }
  session.catching_up, session.lost, session.closed = false, false, false
  M.all[session.id] = session
  last = session.id
  session.transcript:head(snapshot)
  take(session, snapshot)
  return session
end

---@param callback? fun(session: handrail.Session)
---@return handrail.Answer
local function opening(callback)
  return function(problem, snapshot)
    if problem then
      return notice.warn(problem.message)
    end
    local session = open(snapshot)
    if callback then
      callback(session)
    end
  end
end

--- Open a new session in a folder; the settings of the configuration as it is now hold for it.
---@param folder string path
---@param settings? handrail.Settings
---@param callback fun(session: handrail.Session)
function M.new(folder, settings, callback)
  local all = vim.tbl_deep_extend("force", config.get().settings, settings or {})
  local params = { cwd = vim.uri_from_fname(folder), settings = next(all) and all or nil }
  client.request(methods.session_new, params, opening(callback))
end

--- Open a stored session.
---@param id string
---@param callback? fun(session: handrail.Session)
function M.load(id, callback)
  client.request(methods.session_load, { sessionId = id }, opening(callback))
end

--- The session of the current buffer, else the one that was used last.
---@return handrail.Session?
function M.current()
  local id = vim.b.handrail_session or last
  last = id
  local session = M.all[id or ""]
  return session and not session.closed and session or nil
end

--- The sessions that we show, in the order of their ids.
---@return handrail.Session[]
function M.list()
  local ids = vim.tbl_keys(M.all)
  table.sort(ids)
  return vim.tbl_map(function(id)
    return M.all[id]
  end, ids)
end

--- Send a request about a session and take the snapshot that answers it. One whose server is gone is loaded first.
---@param session handrail.Session
---@param method string
---@param params? table
---@param callback? fun(problem?: handrail.Failure)
function M.ask(session, method, params, callback)
  if session.lost then
    return M.load(session.id, function()
      M.ask(session, method, params, callback)
    end)
  end
  local whole = vim.tbl_extend("force", { sessionId = session.id }, params or {})
  client.request(method, whole, function(problem, snapshot)
    if snapshot then
      M.receive(snapshot)
    end
    if callback then
      callback(problem)
    elseif problem then
      notice.warn(problem.message)
    end
  end)
end

--- Give a prompt, or go on with an unfinished turn. While the session works the prompt is queued.
---@param session handrail.Session
---@param prompt? string
---@param max_steps integer|vim.NIL vim.NIL: until the turn ends
---@param context? handrail.ContextItem[]
function M.step(session, prompt, max_steps, context)
  last = session.id
  local snapshot = session.snapshot
  if prompt and snapshot.state ~= "idle" then
    return M.ask(session, methods.session_queue, { prompt = prompt }, function(problem)
      notice.say(problem and problem.message or "queued; the model is told before its next step")
    end)
  end
  if not prompt and not view.UNFINISHED[snapshot.stopReason or ""] then
    return notice.warn("the turn is over; give a prompt: :Handrail run PROMPT")
  end
  M.ask(session, methods.session_step, { prompt = prompt, maxSteps = max_steps, context = context })
end

--- Note that the server is gone: nothing can be decided until the sessions are loaded again.
function M.lose()
  for _, session in pairs(M.all) do
    session.lost = true
    for _, listener in ipairs(M.listeners) do
      listener(session, session.snapshot)
    end
  end
end

--- Load every session again that was open when the server was lost, then call back.
---@param callback fun()
function M.load_again(callback)
  local lost = vim.tbl_filter(function(session)
    return session.lost and not session.closed
  end, M.list())
  local left = #lost
  for _, session in ipairs(lost) do
    local answer = opening()
    client.request(methods.session_load, { sessionId = session.id }, function(problem, snapshot)
      answer(problem, snapshot)
      left = left - 1
      if left == 0 then
        callback()
      end
    end)
  end
end

--- Close a session and let go of it; its record stays.
---@param session handrail.Session
function M.close(session)
  client.request(methods.session_close, { sessionId = session.id }, function(problem, snapshot)
    if problem then
      return notice.warn(problem.message)
    end
    session.closed = true
    M.receive(snapshot)
  end)
end

return M
