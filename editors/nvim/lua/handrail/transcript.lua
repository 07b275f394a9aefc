--- Draws one session into its buffer, from snapshots, stream pieces and pages of the record.
---
--- Invariants: each text, command and result is drawn once, results under their own command; a command's output is
--- bounded, and what is left out is counted; steps that were passed over are drawn from the record, never guessed.
local Flow = require("handrail.flow")
local Paper = require("handrail.paper")
local markdown = require("handrail.markdown")
local text = require("handrail.text")
local view = require("handrail.view")

local FIRST_ROWS, LAST_ROWS = 60, 140

--- Text that grows: its block, and whether the block's last row is a line that is not complete yet.
---@class handrail.Growing
---@field flow handrail.Flow
---@field block? handrail.Block
---@field open boolean

---@class handrail.DrawnCall: handrail.Growing
---@field call handrail.Call
---@field head integer rows before the output
---@field left_out integer rows of output that were taken out
---@field by_person? boolean whether it is the person's own command
---@field since? integer when it was first seen running (ms)

---@class handrail.Transcript
---@field paper handrail.Paper
---@field index integer of the step that is drawn
---@field private step_id string
---@field private attempt integer
---@field private said integer
---@field private words handrail.Growing
---@field private marks handrail.MarkdownState
---@field private calls table<string, handrail.DrawnCall>
---@field private closed? string what the last closing rows were about
local Transcript = {}
Transcript.__index = Transcript

---@param buffer integer
---@return handrail.Transcript
function Transcript.new(buffer)
  local self = setmetatable({ paper = Paper.new(buffer) }, Transcript)
  self:forget()
  return self
end

---@private
function Transcript:forget()
  self.index, self.step_id, self.attempt, self.said = 0, "", 1, 0
  self.calls, self.closed = {}, nil
  self:forget_words()
end

---@private
function Transcript:forget_words()
  self.words, self.marks = { flow = Flow.new(), open = false }, {}
end

--- Write the head of the session; once, before everything else.
---@param snapshot handrail.Snapshot
function Transcript:head(snapshot)
  self.paper:block(view.head(snapshot))
end

--- The index of the first step that must be read from the record before a snapshot can be drawn.
---@param snapshot handrail.Snapshot
---@return integer?
function Transcript:missed_from(snapshot)
  local step = snapshot.step
  if not step or step.index <= self.index then
    return nil
  end
  for _, drawn in pairs(self.calls) do
    if not view.FINAL[drawn.call.status] and drawn.call.reason ~= "detached" and not drawn.by_person then
      return self.index
    end
  end
  return step.index > self.index + 1 and self.index + 1 or nil
end

--- Draw what a snapshot adds.
---@param snapshot handrail.Snapshot
function Transcript:take(snapshot)
  if snapshot.step then
    self:take_step(snapshot.step, snapshot.state ~= "querying")
  end
  for _, call in ipairs(snapshot.detached) do
    self:take_call(call)
  end
  if snapshot.personCommand then
    self:take_call(snapshot.personCommand).by_person = true
  end
  local about = snapshot.state == "idle" and snapshot.stopReason and snapshot.stopReason .. self.index or nil
  if about and about ~= self.closed then
    self.paper:block(view.closing(snapshot))
  end
  self.closed = about
end

--- Draw what a step adds.
---@param step handrail.Step
---@param complete boolean whether the model's reply is
function Transcript:take_step(step, complete)
  self:enter(step)
  if complete or step.attempt == self.attempt then
    self:add_words(self.words.flow:take(step.textOffset, step.text), complete)
  end
  for _, call in ipairs(step.calls) do
    self:take_call(call)
  end
end

--- Draw a piece of streamed text; a piece of another step or an older attempt is dropped.
---@param piece handrail.StreamParams
function Transcript:stream(piece)
  if piece.channel == "output" then
    local drawn = self.calls[piece.callId or ""]
    if drawn and not view.FINAL[drawn.call.status] then
      self:add_output(drawn, drawn.flow:take(piece.offset, piece.text))
    end
  elseif piece.channel == "text" and piece.stepId == self.step_id and piece.attempt >= self.attempt then
    self:new_attempt(piece.attempt)
    self:add_words(self.words.flow:take(piece.offset, piece.text), false)
  end
end

--- Tell anew how long the running commands have been running.
function Transcript:tick()
  for _, drawn in pairs(self.calls) do
    if drawn.call.status == "running" then
      self:tell_status(drawn)
    end
  end
end

--- The call whose block holds a row.
---@param row integer from 0
---@return handrail.Call?
function Transcript:call_at(row)
  for _, drawn in pairs(self.calls) do
    local first, last = self.paper:place(drawn.block)
    if row >= first and row <= last then
      return drawn.call
    end
  end
end

---@private
---@param step handrail.Step
function Transcript:enter(step)
  if step.stepId ~= self.step_id then
    self.step_id, self.index, self.attempt, self.said = step.stepId, step.index, 1, 0
    self:forget_words()
    self.paper:block(view.step(step))
  end
  for at = self.said + 1, #step.said do
    local rows = view.said(step.said[at])
    if #rows > 0 then
      self.paper:block(rows)
    end
  end
  self.said = #step.said
  self:new_attempt(step.attempt)
end

---@private
---@param attempt integer
function Transcript:new_attempt(attempt)
  if attempt <= self.attempt then
    return
  end
  self.attempt = attempt
  if self.words.block then
    local told = ("asked again, attempt %d; what it said above does not count"):format(attempt)
    self.paper:block({ { told, "HandrailQuiet" } })
  end
  self:forget_words()
end

---@private
---@param lines string[] complete ones
---@param complete boolean whether no more will come
function Transcript:add_words(lines, complete)
  local words, rows = self.words, {}
  vim.list_extend(lines, complete and words.flow:finish() or {})
  for _, line in ipairs(lines) do
    if words.block or #rows > 0 or vim.trim(line) ~= "" then
      line = text.escape(line)
      rows[#rows + 1] = { line, spans = markdown.spans(self.marks, line) }
    end
  end
  local rest = text.escape(words.flow.partial)
  local open = rest ~= "" and { rest, spans = markdown.spans(vim.deepcopy(self.marks), rest) } or nil
  self:grow(words, rows, open)
end

--- Add rows, the first of which completes the open one, and then a new open one.
---@private
---@param growing handrail.Growing
---@param rows handrail.Row[]
---@param open? handrail.Row
function Transcript:grow(growing, rows, open)
  rows[#rows + 1] = open
  if #rows == 0 then
    return
  end
  if not growing.block then
    growing.block = self.paper:block(rows)
  else
    if growing.open then
      self.paper:set(growing.block, -1, table.remove(rows, 1))
    end
    self.paper:add(growing.block, rows)
  end
  growing.open = open ~= nil
end

---@private
---@param call handrail.Call
---@return handrail.DrawnCall
function Transcript:take_call(call)
  local drawn = self.calls[call.callId]
  if not drawn then
    self.paper:block({ { "" } })
    local rows = view.command(call)
    local block = self.paper:block(rows)
    drawn = { call = call, block = block, head = #rows, flow = Flow.new(), left_out = 0, open = false }
    self.calls[call.callId] = drawn
  elseif view.FINAL[drawn.call.status] then
    return drawn
  elseif drawn.call.command ~= call.command then
    local rows = view.command(call)
    self.paper:add(drawn.block, rows)
    drawn.head = drawn.head + #rows
  end
  drawn.call = call
  self:update_call(drawn)
  return drawn
end

---@private
---@param drawn handrail.DrawnCall
function Transcript:update_call(drawn)
  local call = drawn.call
  local over = view.FINAL[call.status]
  local lines = call.result and drawn.flow:take(call.result.outputOffset, call.result.outputTail) or {}
  vim.list_extend(lines, over and drawn.flow:finish() or {})
  self:add_output(drawn, lines)
  if over then
    self.paper:add(drawn.block, view.result(call))
  end
  self:tell_status(drawn)
end

---@private
---@param drawn handrail.DrawnCall
function Transcript:tell_status(drawn)
  local call, now = drawn.call, vim.uv.now()
  drawn.since = drawn.since or (call.status == "running" and now or nil)
  local words, group = view.status(call, drawn.since and (now - drawn.since) / 1000)
  local position = view.position(call)
  self.paper:note(drawn.block, words .. (position ~= "" and " · " .. position or ""), group)
end

---@private
---@param drawn handrail.DrawnCall
---@param lines string[] complete ones
function Transcript:add_output(drawn, lines)
  local rows = {}
  if drawn.flow.lost > 0 then
    rows[1] = { ("│ … %s not shown"):format(text.count(drawn.flow.lost, "byte")), "HandrailQuiet" }
    drawn.flow.lost = 0
    self:grow(drawn, {}, nil)
  end
  -- What would be taken out again at once is not written at all: a command may print a million lines.
  local skipped = math.max(0, #lines - FIRST_ROWS - LAST_ROWS)
  for at, line in ipairs(lines) do
    if at <= FIRST_ROWS or at > FIRST_ROWS + skipped then
      rows[#rows + 1] = { "│ " .. text.output_line(line), "HandrailOutput" }
    end
  end
  local rest = drawn.flow.partial
  self:grow(drawn, rows, rest ~= "" and { "│ " .. text.output_line(rest), "HandrailOutput" } or nil)
  self:bound_output(drawn, skipped)
end

---@private
---@param drawn handrail.DrawnCall
---@param skipped integer rows that were not even written
function Transcript:bound_output(drawn, skipped)
  local marker = drawn.left_out > 0 and 1 or 0
  local excess = drawn.block.rows - drawn.head - marker - FIRST_ROWS - LAST_ROWS
  if excess <= 0 and skipped == 0 then
    return
  end
  local at = drawn.head + FIRST_ROWS
  -- The first row that is too many becomes the one that tells of it.
  local taken = math.max(excess, 0) + (marker == 0 and 1 or 0)
  drawn.left_out = drawn.left_out + taken + skipped
  self.paper:take_out(drawn.block, at + 1, marker == 0 and taken - 1 or taken)
  local told = ("│ … %s not shown"):format(text.count(drawn.left_out, "line"))
  self.paper:set(drawn.block, at, { told, "HandrailQuiet" })
end

return Transcript
