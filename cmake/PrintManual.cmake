# Run after the program was linked: writes what it prints for man and for shells into FOLDER.
file(MAKE_DIRECTORY ${FOLDER})
function(print_into file)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
print_into(kvkeep.1 --man)
print_into(kvkeep.bash --completions bash)
print_into(kvkeep.zsh --completions zsh)
print_into(kvkeep.fish --completions fish)
