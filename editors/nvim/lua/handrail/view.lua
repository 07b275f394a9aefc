--- What the parts of a snapshot look like: pure functions from the protocol's objects to rows.
---
--- Invariants: pure. No row holds a character that hides or turns others; a word that this version does not know is
--- shown as it is and never looks like an approval; the same snapshot gives the same rows.
local meanings = require("handrail.protocol").meanings
local text = require("handrail.text")

local M = {}

---@class handrail.Row
---@field [1] string the text, one line
---@field [2]? string highlight group of the whole row
---@field spans? handrail.Span[] highlights of parts

--- Statuses that never change any more.
M.FINAL = { completed = true, failed = true, rejected = true, cancelled = true, timed_out = true, interrupted = true }
--- States in which nothing goes on until somebody does something.
M.RESTING = { idle = true, awaiting_approval = true, closed = true }
--- Stop reasons after which a step needs no prompt.
M.UNFINISHED = {
  step_done = true,
  interrupted = true,
  max_steps = true,
  cost_limit = true,
  time_limit = true,
  model_error = true,
  cancelled = true,
}
local DONE_WELL = { end_turn = true, submitted = true }
local SAID_ROWS = 30

--- What a word of one of the protocol's open vocabularies means; an unknown one comes back as it is.
---@param vocabulary string
---@param word string
---@return string
function M.meaning(vocabulary, word)
  return meanings[vocabulary][word] or text.row(word)
end

---@param parts (string|false|nil)[]
---@param count integer
---@return string
local function joined(parts, count)
  local given = {}
  for at = 1, count do
    if parts[at] and parts[at] ~= "" then
      given[#given + 1] = parts[at]
    end
  end
  return table.concat(given, " · ")
end

---@param items string[]
---@return string
local function listed(items)
  return text.row(table.concat(items, ", "))
end

---@param uris string[]
---@param folder string
---@return string
local function places(uris, folder)
  local names = vim.tbl_map(function(uri)
    return text.place(uri, folder)
  end, uris)
  return table.concat(names, ", ")
end

--- Say whose session this is and how commands are judged.
---@param snapshot handrail.Snapshot
---@return handrail.Row[]
function M.head(snapshot)
  local model = snapshot.model ~= "" and text.row(snapshot.model) or "no model yet"
  local where = text.place(snapshot.cwd)
  return { { ("Handrail · %s · %s"):format(model, where), "HandrailTitle" } }
end

--- Head a step.
---@param step handrail.Step
---@return handrail.Row[]
function M.step(step)
  return { { "" }, { ("Step %d"):format(step.index), "HandrailStep" } }
end

--- Show what the model was told in the person's place.
---@param said handrail.Said
---@return handrail.Row[]
function M.said(said)
  local person = said.origin == "prompt" or said.origin == "queued"
  local labels = { correction = "told the model: ", person_ran = "you ran: " }
  local group = person and "HandrailPrompt" or "HandrailQuiet"
  local rows = {}
  for at, line in ipairs(text.lines(text.escape(vim.trim(said.text)))) do
    if at > SAID_ROWS then
      break
    end
    local gutter = person and (at == 1 and "▸ " or "  ") or (at == 1 and (labels[said.origin] or "") or "")
    rows[at] = { gutter .. line, group }
  end
  return rows
end

--- Show a whole command as a shell would: `$` where it begins, `>` where each further line begins.
---@param call handrail.Call
---@param width? integer cells; longer lines are folded with `↪`
---@return handrail.Row[]
function M.command(call, width)
  local rows = {}
  for at, line in ipairs(text.lines(text.escape(call.display))) do
    line = text.expand_tabs(line)
    for piece_at, piece in ipairs(width and text.fold(line, width - 2) or { line }) do
      local gutter = piece_at > 1 and "↪ " or at > 1 and "> " or "$ "
      rows[#rows + 1] = { gutter .. piece, "HandrailCommand" }
    end
  end
  return rows
end

--- Say which call of its reply this is; nothing if it is the only one.
---@param call handrail.Call
---@return string
function M.position(call)
  return call.count > 1 and ("%d of %d"):format(call.position, call.count) or ""
end

--- What a person should be warned of before deciding.
---@param call handrail.Call
---@return string[]
function M.warnings(call)
  local warnings = vim.tbl_map(text.row, call.warnings)
  if call.long then
    local lines, characters = text.count(call.lineCount, "line"), text.count(call.characterCount, "character")
    table.insert(warnings, 1, ("long: %s, %s; look at all of it"):format(lines, characters))
  end
  if #call.unsavedFiles > 0 then
    warnings[#warnings + 1] = "unsaved in this editor: " .. places(call.unsavedFiles, call.cwd)
  end
  if call.relatedRejection then
    warnings[#warnings + 1] = "like a command that was rejected in this turn"
  end
  return warnings
end

--- Show what a person should know before deciding, the command itself excepted.
---@param call handrail.Call
---@return handrail.Row[]
function M.facts(call)
  local environment = #call.addedEnvironment > 0 and "with " .. listed(call.addedEnvironment)
  local sandbox = call.sandbox ~= "off" and "sandbox " .. text.row(call.sandbox)
  local limit = "at most " .. text.seconds(call.timeout)
  local rows = { { joined({ "in " .. text.place(call.cwd), limit, sandbox, environment }, 4), "HandrailQuiet" } }
  if call.analysis and #call.analysis.writes > 0 then
    rows[#rows + 1] = { "writes " .. listed(call.analysis.writes), "HandrailQuiet" }
  end
  if call.verdict then
    rows[#rows + 1] = { "asked because " .. text.row(call.verdict.why), "HandrailQuiet" }
  end
  for _, warning in ipairs(M.warnings(call)) do
    rows[#rows + 1] = { "! " .. warning, "HandrailWarning" }
  end
  return rows
end

---@param call handrail.Call
---@return string
local function why(call)
  local reason = call.reason and M.meaning("Reason", call.reason) or ""
  if call.decisionReason then
    return reason .. ": " .. text.row(call.decisionReason)
  end
  if call.reason == "denied_by_rule" and call.verdict then
    return reason .. ": " .. text.row(call.verdict.why)
  end
  return reason
end

---@param call handrail.Call
---@return string, string
local function finished(call)
  local result = call.result or {}
  if not call.startedAtMs and not result.exitCode and call.reason ~= "interrupted" then
    local told = (call.reason == nil or call.reason == "unusable") and result.error
    local reason = told and text.row(told) or why(call)
    return "✗ not run: " .. (reason ~= "" and reason or text.row(call.status)), "HandrailWarning"
  end
  local well = call.status == "completed" and result.exitCode == 0
  local facts = joined({
    call.status ~= "completed" and (text.row(call.status):gsub("_", " ")),
    result.exitCode and ("exit %d"):format(result.exitCode),
    result.signal and text.row(result.signal),
    call.status ~= "completed" and call.reason ~= "cancelled" and why(call),
    result.durationMs and text.seconds(result.durationMs / 1000),
  }, 5)
  return (well and "✓ " or "✗ ") .. facts, well and "HandrailGood" or "HandrailBad"
end

--- Say in a few words where a call stands, with the group to show it in.
---@param call handrail.Call
---@param running? number seconds that it has been running
---@return string, string
function M.status(call, running)
  if M.FINAL[call.status] then
    return finished(call)
  end
  local words = { pending = "not judged yet", awaiting_approval = "waits for you", approved = "approved" }
  if call.status == "running" then
    return "● running" .. (running and " " .. ("%.0f s"):format(running) or ""), "HandrailRunning"
  end
  local group = call.status == "awaiting_approval" and "HandrailWaiting" or "HandrailQuiet"
  return "○ " .. (words[call.status] or text.row(call.status)), group
end

--- Show what is to be told of a call that is over, below its output.
---@param call handrail.Call
---@return handrail.Row[]
function M.result(call)
  local rows, result = {}, call.result
  if call.editedFrom then
    rows[#rows + 1] = { "edited by you; the model wrote: " .. text.row(call.editedFrom), "HandrailQuiet" }
  end
  if not result then
    return rows
  end
  if #result.changedFiles > 0 then
    rows[#rows + 1] = { "changed " .. places(result.changedFiles, call.cwd), "HandrailQuiet" }
  end
  if #result.leftovers > 0 then
    local left = listed(result.leftovers)
    rows[#rows + 1] = { "! still running, ends with the session: " .. left, "HandrailWarning" }
  end
  if result.omittedBytes > 0 then
    local omitted = text.count(result.omittedBytes, "byte")
    rows[#rows + 1] = { "the model was not shown " .. omitted, "HandrailQuiet" }
  end
  return rows
end

--- Say what the session used: tokens and cost.
---@param snapshot handrail.Snapshot
---@return string
function M.usage(snapshot)
  local usage = snapshot.usage
  local tokens = text.number(usage.inputTokens) .. " in, " .. text.number(usage.outputTokens) .. " out"
  return tokens .. " · " .. text.money(usage.cost, usage.costKnown)
end

--- Say why the turn came to rest.
---@param snapshot handrail.Snapshot
---@return handrail.Row[]
function M.closing(snapshot)
  local reason = snapshot.stopReason
  local well = DONE_WELL[reason or ""]
  local words = reason and M.meaning("StopReason", reason) or "the session is " .. text.row(snapshot.state)
  local rows = { { "" }, { (well and "✓ " or "■ ") .. words, well and "HandrailGood" or "HandrailWarning" } }
  for _, line in ipairs(snapshot.error and text.lines(text.escape(snapshot.error.message)) or {}) do
    rows[#rows + 1] = { "  " .. line, "HandrailBad" }
  end
  return rows
end

--- Say in a few words what the session does now.
---@param snapshot handrail.Snapshot
---@return string
function M.activity(snapshot)
  local retry = snapshot.retry
  if retry then
    return ("attempt %d in %s: %s"):format(retry.attempt, text.seconds(retry.inSeconds), text.row(retry.reason))
  end
  local words = { idle = "at rest", querying = "thinking", executing = "running", cancelling = "stopping" }
  if snapshot.state == "awaiting_approval" then
    return #snapshot.pending .. " waiting"
  end
  return words[snapshot.state] or text.row(snapshot.state)
end

return M
