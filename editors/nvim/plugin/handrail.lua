-- Defines `:Handrail` and the <Plug> mappings; everything else is loaded when it is first used.
if vim.g.loaded_handrail then
  return
end
vim.g.loaded_handrail = true

vim.api.nvim_create_user_command("Handrail", function(command)
  require("handrail")
  require("handrail.commands").run(command)
end, {
  nargs = "*",
  range = true,
  desc = "An agent in your project, one approved command at a time",
  complete = function(lead, line)
    return require("handrail.commands").complete(lead, line)
  end,
})

local mapped = "start step run review approve edit reject stop cancel sessions open mode log"
for name in mapped:gmatch("%S+") do
  local plug = "<Plug>(handrail-" .. name .. ")"
  vim.keymap.set("n", plug, "<Cmd>Handrail " .. name .. "<CR>", { desc = "Handrail: " .. name })
end
