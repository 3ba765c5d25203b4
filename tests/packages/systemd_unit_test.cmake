# Lets systemd judge the unit, without a systemd that runs: what it cannot parse, and how much the service is exposed.
#   cmake -DSYSTEMD_ANALYZE=... -DUNIT=... -DPROGRAM=... -DWORK=... -P systemd_unit_test.cmake

file(READ ${UNIT} text)
string(REPLACE "/usr/bin/dynamix-node" "${PROGRAM}" runnable "${text}") # it has to be there
if(runnable STREQUAL text)
  message(FATAL_ERROR "the unit does not start /usr/bin/dynamix-node")
endif()
get_filename_component(name ${UNIT} NAME)
string(REPLACE "@" "@ada" instance ${name})
file(REMOVE_RECURSE ${WORK})

# Who may read its state, and what it may take of the machine.
foreach(limit "StateDirectoryMode=0700" "UMask=0077" "TasksMax=[0-9]+" "LimitFSIZE=[0-9]+G")
  if(NOT text MATCHES "\n${limit}\n")
    message(FATAL_ERROR "the unit does not say ${limit}")
  endif()
endforeach()

# What is wrong is printed and, in Debian 12, no failure.
function(verify text problems_name)
  file(WRITE ${WORK}/${name} "${text}")
  execute_process(COMMAND ${SYSTEMD_ANALYZE} verify --man=no ${WORK}/${instance} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(REGEX MATCHALL "[^\n]*dynamix-node@[^\n]*" problems "${output}") # others' units are not judged
  if(NOT result EQUAL 0)
    list(APPEND problems "it ended with ${result}: ${output}")
  endif()
  set(${problems_name} "${problems}" PARENT_SCOPE)
endfunction()

string(REPLACE "Restart=on-failure" "Restart=sometimes" wrong "${runnable}")
verify("${wrong}" problems)
if(NOT problems MATCHES "sometimes")
  message(FATAL_ERROR "systemd-analyze does not notice what is wrong: ${problems}")
endif()
verify("${runnable}" problems)
if(problems)
  message(FATAL_ERROR "${problems}")
endif()
execute_process(COMMAND ${SYSTEMD_ANALYZE} security --no-pager --offline=true --threshold=20 ${WORK}/${name} RESULT_VARIABLE result
  OUTPUT_VARIABLE output ERROR_VARIABLE output) # 2.0, where 10 is the worst
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${output}")
endif()
