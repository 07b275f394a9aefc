--- The list of stored sessions in a buffer: Enter opens the one under the cursor.
local client = require("handrail.client")
local methods = require("handrail.protocol").methods
local notice = require("handrail.notice")
local sessions = require("handrail.session")
local text = require("handrail.text")
local window = require("handrail.window")

local M = {}

local known = {} ---@type string[]

---@param info handrail.SessionInfo
---@return string
local function line(info)
  local waiting = info.pending > 0 and info.pending .. " waiting" or nil
  local parts = {
    os.date("%Y-%m-%d %H:%M", math.floor(info.updatedAtMs / 1000)),
    info.title ~= "" and info.title or "(no prompt yet)",
    waiting or info.stopReason or info.state,
    text.count(info.steps, "step"),
    text.money(info.cost, info.costKnown),
    text.place(info.cwd),
  }
  parts[#parts + 1] = info.holder and "open in " .. info.holder or nil
  return text.row(table.concat(parts, " · "))
end

---@param found handrail.SessionInfo[]
local function show(found)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = "wipe"
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.tbl_map(line, found))
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = "handrail-sessions"
  local height = math.min(15, #found + 1)
  local list = vim.api.nvim_open_win(buffer, true, { split = "below", win = -1, height = height })
  vim.wo[list].winbar = "Handrail: Enter opens a session · D deletes it and its record · q leaves"
  vim.wo[list].cursorline = true
  local function map(key, action)
    vim.keymap.set("n", key, function()
      local info = found[vim.api.nvim_win_get_cursor(list)[1]]
      vim.api.nvim_win_close(list, true)
      action(info)
    end, { buffer = buffer, nowait = true })
  end
  map("q", function() end)
  map("<CR>", function(info)
    sessions.load(info.sessionId, window.open)
  end)
  map("D", function(info)
    client.request(methods.session_delete, { sessionId = info.sessionId }, function(problem)
      notice.say(problem and problem.message or "the session and its record are gone")
      M.open()
    end)
  end)
end

--- List all sessions, newest first.
function M.open()
  client.request(methods.session_list, {}, function(problem, answer)
    if problem then
      return notice.warn(problem.message)
    end
    known = vim.tbl_map(function(info)
      return info.sessionId
    end, answer.sessions)
    if #answer.sessions == 0 then
      return notice.say("there is no session yet: :Handrail start PROMPT")
    end
    show(answer.sessions)
  end)
end

--- The ids that were listed last, for completion; asks for them for the next time.
---@return string[]
function M.ids()
  if client.connected() then
    local done = false
    client.request(methods.session_list, {}, function(_, answer)
      done = true
      known = answer and vim.tbl_map(function(info)
        return info.sessionId
      end, answer.sessions) or known
    end)
    vim.wait(300, function()
      return done
    end, 10)
  end
  return known
end

return M
