--- Which calls wait for a decision, over all sessions: one is shown at a time.
---
--- Invariants: pure. Only a session that says `awaiting_approval` has calls that wait; a call is the same only while
--- its digest is.
local M = {}

---@class handrail.Waiting
---@field session handrail.Session
---@field call handrail.Call

--- The calls of one session that wait, in order.
---@param session handrail.Session
---@return handrail.Waiting[]
function M.of(session)
  local snapshot = session.snapshot
  if session.lost or snapshot.state ~= "awaiting_approval" or not snapshot.step then
    return {}
  end
  local waiting = {}
  for _, id in ipairs(snapshot.pending) do
    for _, call in ipairs(snapshot.step.calls) do
      if call.callId == id then
        waiting[#waiting + 1] = { session = session, call = call }
      end
    end
  end
  return waiting
end

--- The calls that wait in all sessions; those of `first` come first.
---@param sessions handrail.Session[]
---@param first? handrail.Session
---@return handrail.Waiting[]
function M.all(sessions, first)
  local waiting = first and M.of(first) or {}
  for _, session in ipairs(sessions) do
    if session ~= first then
      vim.list_extend(waiting, M.of(session))
    end
  end
  return waiting
end

--- What names one request: another text, another request.
---@param waiting handrail.Waiting
---@return string
function M.key(waiting)
  return table.concat({ waiting.session.id, waiting.call.callId, waiting.call.digest }, " ")
end

--- Whether a call still waits as it was shown.
---@param waiting handrail.Waiting
---@return boolean
function M.still(waiting)
  for _, each in ipairs(M.of(waiting.session)) do
    if M.key(each) == M.key(waiting) then
      return true
    end
  end
  return false
end

return M
