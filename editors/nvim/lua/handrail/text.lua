--- Text made safe and short for a buffer: escaped characters, paths, times, costs, counts, rows of a given width.
---
--- Invariants: pure. What leaves `escape` hides nothing and turns no direction; an unknown cost is told as unknown,
--- never as a number.
local M = {}

--- Code points that are not seen, or change what is seen around them.
local DECEPTIVE = {
  { 0x80, 0x9F },
  { 0xAD, 0xAD },
  { 0x34F, 0x34F },
  { 0x61C, 0x61C },
  { 0x115F, 0x1160 },
  { 0x17B4, 0x17B5 },
  { 0x180B, 0x180F },
  { 0x200B, 0x200F },
  { 0x2028, 0x202E },
  { 0x2060, 0x206F },
  { 0x3164, 0x3164 },
  { 0xD800, 0xDFFF },
  { 0xFE00, 0xFE0F },
  { 0xFEFF, 0xFEFF },
  { 0xFFA0, 0xFFA0 },
  { 0xFFF0, 0xFFFB },
  { 0x1BCA0, 0x1BCA3 },
  { 0x1D173, 0x1D17A },
  { 0xE0000, 0xE0FFF },
}

---@param character string one UTF-8 character
---@return string
local function shown(character)
  local point = vim.fn.char2nr(character, true)
  for _, range in ipairs(DECEPTIVE) do
    if point >= range[1] and point <= range[2] then
      return ("<U+%04X>"):format(point)
    end
  end
  return character
end

---@param byte string
---@return string
local function shown_control(byte)
  return ("<U+%04X>"):format(byte:byte())
end

--- Show control, bidirectional and invisible characters as `<U+....>`; keep line feeds and tabs.
---@param text string
---@return string
function M.escape(text)
  if not text:find("[^\t\n -~]") then
    return text
  end
  text = text:gsub("[%z\1-\8\11-\31\127]", shown_control)
  return (text:gsub("[\194-\244][\128-\191]+", shown))
end

--- Show text that must be one row: escaped, with line feeds and tabs as blanks.
---@param text string
---@return string
function M.row(text)
  return (M.escape(text):gsub("[\n\t]", " "))
end

--- Show one line of a command's output: colours removed, of an overwritten line only what was last, escaped.
---@param line string
---@return string
function M.output_line(line)
  if line:find("\27", 1, true) then
    line = line:gsub("\27%[[0-?]*[ -/]*[@-~]", "")
    line = line:gsub("\27%][^\7\27]*\7?", ""):gsub("\27\\", "")
    line = line:gsub("\27[ -/]*[0-~]", "")
  end
  line = line:gsub("\r+$", "")
  return M.escape(line:match("[^\r]*$"))
end

---@param text string
---@return string[]
function M.lines(text)
  return vim.split(text, "\n", { plain = true })
end

--- Show a row's tabs as blanks, to stops of eight.
---@param row string
---@return string
function M.expand_tabs(row)
  if not row:find("\t", 1, true) then
    return row
  end
  local parts, column = {}, 0
  for piece, tab in row:gmatch("([^\t]*)(\t?)") do
    column = column + vim.api.nvim_strwidth(piece)
    local blanks = tab ~= "" and 8 - column % 8 or 0
    column = column + blanks
    parts[#parts + 1] = piece .. (" "):rep(blanks)
  end
  return table.concat(parts)
end

--- Split a row into pieces that are at most `width` cells wide, so that scrolling by lines reaches all of it.
---@param row string without tabs
---@param width integer
---@return string[]
function M.fold(row, width)
  if #row <= width then
    return { row }
  end
  local pieces, piece, cells = {}, {}, 0
  for _, character in ipairs(vim.fn.split(row, [[\zs]])) do
    local wide = vim.api.nvim_strwidth(character)
    if cells + wide > width and cells > 0 then
      pieces[#pieces + 1] = table.concat(piece)
      piece, cells = {}, 0
    end
    piece[#piece + 1] = character
    cells = cells + wide
  end
  pieces[#pieces + 1] = table.concat(piece)
  return pieces
end

--- The path of a `file:` URI; anything else as it is.
---@param uri string
---@return string
function M.path(uri)
  return vim.startswith(uri, "file:") and vim.uri_to_fname(uri) or uri
end

--- Show a file or folder: below `folder` as seen from there, else with the home folder as `~`.
---@param uri string
---@param folder? string URI
---@return string
function M.place(uri, folder)
  local path = M.path(uri)
  local inside = folder and vim.fs.relpath(M.path(folder), path)
  return M.row(inside or vim.fn.fnamemodify(path, ":~"))
end

--- Show a duration.
---@param value number seconds
---@return string
function M.seconds(value)
  if value < 1 then
    return ("%.0f ms"):format(value * 1000)
  end
  return (value < 10 and "%.1f s" or "%.0f s"):format(value)
end

--- Show a cost in US dollars.
---@param cost? number
---@param known boolean
---@return string
function M.money(cost, known)
  if known and cost then
    return ("$%.4f"):format(cost)
  end
  return cost and cost > 0 and ("at least $%.4f"):format(cost) or "cost unknown"
end

--- Show a number with its thousands apart.
---@param number integer
---@return string
function M.number(number)
  local text = ("%d"):format(number)
  local first = (#text - 1) % 3 + 1
  return text:sub(1, first) .. text:sub(first + 1):gsub("(%d%d%d)", ",%1")
end

--- Show a number of things: `1 step`, `2,000 steps`.
---@param number integer
---@param thing string
---@return string
function M.count(number, thing)
  return M.number(number) .. " " .. thing .. (number == 1 and "" or "s")
end

return M
