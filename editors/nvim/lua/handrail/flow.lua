--- A text that arrives in pieces with byte offsets, some of them twice, some never; it gives whole lines.
---
--- Invariants: pure. Every byte is given out at most once; bytes that never came are counted in `lost`.

local LONGEST_LINE = 4000

---@class handrail.Flow
---@field partial string the line that is not complete yet
---@field lost integer bytes that never came; whoever tells of them sets it to 0
---@field private taken integer bytes so far
local Flow = {}
Flow.__index = Flow

---@return handrail.Flow
function Flow.new()
  return setmetatable({ partial = "", lost = 0, taken = 0 }, Flow)
end

--- Return the lines that a piece completes.
---@param offset integer bytes before the piece
---@param text string
---@return string[]
function Flow:take(offset, text)
  if offset + #text <= self.taken then
    return {}
  end
  self.lost = self.lost + math.max(0, offset - self.taken)
  local new = text:sub(math.max(0, self.taken - offset) + 1)
  self.taken = offset + #text
  local lines = vim.split(self.partial .. new, "\n", { plain = true })
  self.partial = table.remove(lines)
  if #self.partial > LONGEST_LINE then
    lines[#lines + 1] = self.partial
    self.partial = ""
  end
  return lines
end

--- Return the last line if it has no end.
---@return string[]
function Flow:finish()
  local rest = self.partial
  self.partial = ""
  return rest ~= "" and { rest } or {}
end

return Flow
