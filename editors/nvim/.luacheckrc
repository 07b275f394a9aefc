std = "luajit"
read_globals = { "vim" }
globals = { "vim.g", "vim.b", "vim.o", "vim.bo", "vim.wo", "vim.v" }
max_line_length = 120
self = false
exclude_files = { "lua/handrail/protocol.lua" }
