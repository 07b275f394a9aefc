--- What the editor's own buffers have to do with commands: unsaved ones are written on demand, changed ones read again.
---
--- Invariants: a buffer with unsaved changes is never read again and never asked about; undo is kept; the quickfix list
--- is filled but never opened.
local config = require("handrail.config")
local notice = require("handrail.notice")
local text = require("handrail.text")
local view = require("handrail.view")

local M = {}

local list ---@type integer? id of our quickfix list

---@param uri string
---@return integer? buffer if the file is loaded
local function loaded(uri)
  local path = vim.uv.fs_realpath(text.path(uri)) or text.path(uri)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    local name = vim.api.nvim_buf_is_loaded(buffer) and vim.api.nvim_buf_get_name(buffer) or ""
    if name ~= "" and (name == path or vim.uv.fs_realpath(name) == path) then
      return buffer
    end
  end
end

--- Write these files' buffers; false if one could not be written, and nothing is to happen then.
---@param uris string[]
---@return boolean
function M.write(uris)
  for _, uri in ipairs(uris) do
    local buffer = loaded(uri)
    if buffer and vim.bo[buffer].modified then
      local well, problem = pcall(vim.api.nvim_buf_call, buffer, function()
        vim.cmd("silent keepalt write")
      end)
      if not well or vim.bo[buffer].modified then
        notice.warn(("%s was not written: %s"):format(text.place(uri), problem or "it is still modified"))
        return false
      end
    end
  end
  return true
end

---@param buffer integer
local function read_again(buffer)
  if not vim.api.nvim_buf_is_valid(buffer) then
    return
  end
  if vim.bo[buffer].modified then
    return notice.warn(text.place(vim.api.nvim_buf_get_name(buffer)) .. " changed on disk and has unsaved changes here")
  end
  local group = vim.api.nvim_create_augroup("handrail.reload", {})
  vim.api.nvim_create_autocmd("FileChangedShell", {
    group = group,
    buffer = buffer,
    callback = function()
      vim.v.fcs_choice = vim.v.fcs_reason == "deleted" and "" or "reload"
    end,
  })
  vim.cmd("silent! checktime " .. buffer)
  vim.api.nvim_del_augroup_by_id(group)
end

--- Read again the buffers of files that changed on disk; one in which the person types, as soon as they stop.
---@param uris string[]
function M.reload(uris)
  for _, uri in ipairs(uris) do
    local buffer = loaded(uri)
    if buffer and buffer == vim.api.nvim_get_current_buf() and vim.fn.mode():find("^[iR]") then
      vim.api.nvim_create_autocmd("InsertLeave", {
        buffer = buffer,
        once = true,
        callback = function()
          read_again(buffer)
        end,
      })
    elseif buffer then
      read_again(buffer)
    end
  end
end

---@param uris string[]
local function fill_quickfix(uris)
  local exists = list and vim.fn.getqflist({ id = list }).id == list
  local known = {}
  for _, item in ipairs(exists and vim.fn.getqflist({ id = list, items = true }).items or {}) do
    known[vim.api.nvim_buf_get_name(item.bufnr)] = true
  end
  local items = {}
  for _, uri in ipairs(uris) do
    local path = text.path(uri)
    if not known[path] and vim.uv.fs_stat(path) then
      items[#items + 1] = { filename = path, lnum = 1, text = "changed by a command" }
    end
  end
  if #items == 0 then
    return
  end
  local what = { id = exists and list or nil, title = "Handrail: changed files", items = items }
  vim.fn.setqflist({}, exists and "a" or " ", what)
  list = exists and list or vim.fn.getqflist({ nr = "$", id = 0 }).id
end

---@param snapshot handrail.Snapshot
---@return table<string, handrail.Call>
local function ended(snapshot)
  local calls = {}
  for _, call in ipairs(snapshot.step and snapshot.step.calls or {}) do
    if view.FINAL[call.status] then
      calls[call.callId] = call
    end
  end
  return calls
end

--- Take what a change of a session says about files.
---@param session handrail.Session
---@param before handrail.Snapshot
function M.refresh(session, before)
  local known = ended(before)
  for id, call in pairs(ended(session.snapshot)) do
    local changed = not known[id] and call.result and call.result.changedFiles or {}
    if #changed > 0 then
      M.reload(changed)
      if config.get().quickfix then
        fill_quickfix(changed)
      end
    end
  end
end

return M
