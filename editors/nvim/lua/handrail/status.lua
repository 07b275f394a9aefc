--- A few words for a status line.
local approvals = require("handrail.approvals")
local sessions = require("handrail.session")
local view = require("handrail.view")

local M = {}

--- What is going on: empty if there is no session. Safe to be used in 'statusline' as it is.
---@return string
function M.line()
  local waiting = approvals.count()
  if waiting > 0 then
    return ("handrail: %d waiting"):format(waiting)
  end
  local session = sessions.current()
  if not session then
    return ""
  end
  local what = session.lost and "server lost" or view.activity(session.snapshot)
  local trusted = session.snapshot.mode == "trusted" and " (trusted)" or ""
  return (("handrail: " .. what .. trusted):gsub("%%", "%%%%"))
end

return M
