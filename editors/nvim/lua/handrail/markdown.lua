--- Highlights of the model's words, line by line as they come, so that a long or hostile text never redraws another.
---
--- Invariants: pure. Nothing is hidden: marks such as ** stay visible; a fence ends with the text that it is in.
local M = {}

---@class handrail.Span
---@field [1] integer first byte, from 0
---@field [2] integer byte after the last
---@field [3] string highlight group

---@class handrail.MarkdownState
---@field fence? string the mark that ends the code block we are in

local INLINE = {
  { "`[^`]+`", "@markup.raw" },
  { "%*%*[^*]+%*%*", "@markup.strong" },
  { "%f[%w_]_[^_%s][^_]*_%f[^%w_]", "@markup.italic" },
  { "%[[^%]]+%]%([^)%s]+%)", "@markup.link" },
}

--- Return what is highlighted in the next line of a text, and note in `state` what it means for the lines after it.
---@param state handrail.MarkdownState
---@param line string
---@return handrail.Span[]
function M.spans(state, line)
  local mark = line:match("^%s*(```+)") or line:match("^%s*(~~~+)")
  if state.fence then
    if mark and vim.startswith(mark, state.fence) then
      state.fence = nil
    end
    return { { 0, #line, "@markup.raw.block" } }
  end
  if mark then
    state.fence = mark
    return { { 0, #line, "@markup.raw.block" } }
  end
  if line:find("^#+ ") then
    return { { 0, #line, "@markup.heading" } }
  end
  if line:find("^%s*> ") then
    return { { 0, #line, "@markup.quote" } }
  end
  return M.inline(line)
end

--- Return the highlights inside one line of prose.
---@param line string
---@return handrail.Span[]
function M.inline(line)
  local spans = {}
  local _, list = line:find("^%s*[-*+] ")
  if not list then
    _, list = line:find("^%s*%d+%. ")
  end
  if list then
    spans[1] = { 0, list, "@markup.list" }
  end
  for _, rule in ipairs(INLINE) do
    local from = (list or 0) + 1
    while true do
      local first, last = line:find(rule[1], from)
      if not first then
        break
      end
      spans[#spans + 1] = { first - 1, last, rule[2] }
      from = last + 1
    end
  end
  return spans
end

return M
