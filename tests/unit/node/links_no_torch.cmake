# The program loads no Torch, and what trains exports nothing but the two functions it is asked by.
#   cmake -DPROGRAM=... -DMODULE=... -P links_no_torch.cmake
execute_process(COMMAND ldd ${PROGRAM} OUTPUT_VARIABLE libraries COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "lib(torch|gloo|c10|openblas|mkl|cuda)[^\n]*" heavy "${libraries}")
if(heavy)
  message(FATAL_ERROR "${PROGRAM} loads ${heavy}")
endif()
execute_process(COMMAND nm --dynamic --defined-only --extern-only ${MODULE} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[0-9a-f]+ [A-Za-z] " "" names "${symbols}")
string(REGEX REPLACE "@[^\n]*" "" names "${names}")
string(STRIP "${names}" names)
if(NOT names STREQUAL "dynamix_trainer_module\ndynamix_trainer_version")
  message(FATAL_ERROR "${MODULE} exports\n${names}")
endif()
