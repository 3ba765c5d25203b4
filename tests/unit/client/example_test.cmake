# Installs the SDK, builds examples/cpp against it as its users do, and trains with two members.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DTORCH=... -P example_test.cmake

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
foreach(component library sdk)
  run(${CMAKE_COMMAND} --install ${BUILD} --component ${component} --prefix ${WORK}/installed)
endforeach()
# The path that the example's commands give; two in a list would arrive as two arguments.
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/cpp -B ${WORK}/build -DCMAKE_PREFIX_PATH=${TORCH} -Ddynamix_ROOT=${WORK}/installed
    -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
run(${CMAKE_COMMAND} --build ${WORK}/build)
# The commands of one execute_process run at the same time; the first one's output goes to the second, which reads none.
execute_process(COMMAND ${WORK}/build/train ${WORK}/store 1 2 COMMAND ${WORK}/build/train ${WORK}/store 0 2
                RESULTS_VARIABLE results OUTPUT_VARIABLE output ERROR_VARIABLE errors TIMEOUT 120)
message("${output}${errors}")
if(NOT results STREQUAL "0;0" OR NOT output MATCHES "accuracy 0\\.9")
  message(FATAL_ERROR "the example ended with ${results}")
endif()
