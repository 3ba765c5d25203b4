# Makes the Debian packages twice, compares them, and runs the program of one from where it was unpacked.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -P packages_test.cmake

function(run result_name)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${output}${errors}")
  endif()
  set(${result_name} "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(ignored ${CMAKE_COMMAND} --build ${BUILD} --target package_documentation)
foreach(round first second)
  run(ignored ${SOURCE}/tools/make-packages ${BUILD} ${WORK}/${round})
endforeach()
file(GLOB packages RELATIVE ${WORK}/first ${WORK}/first/*.deb)
list(LENGTH packages count)
if(NOT count EQUAL 5)
  message(FATAL_ERROR "there should be five packages: ${packages}")
endif()
foreach(package ${packages})
  file(SHA256 ${WORK}/first/${package} first)
  file(SHA256 ${WORK}/second/${package} second)
  if(NOT first STREQUAL second)
    message(FATAL_ERROR "${package} is not the same when it is made again")
  endif()
  run(ignored dpkg-deb -x ${WORK}/first/${package} ${WORK}/unpacked)
endforeach()

foreach(file bin/dynamix-node bin/dynamix lib/dynamix/libdynamix-trainer.so share/man/man1/dynamix-node-local.1.gz share/bash-completion/completions/dynamix-node
        share/dynamix/policies/ppo.dynamix share/doc/dynamix-node/docs/cluster-file.md share/doc/dynamix-node/docs/images/live-page.png
        share/doc/dynamix-node/deployments/slurm/README.md lib/python3/dist-packages/dynamix/__init__.py include/dynamix/dynamix.h)
  if(NOT EXISTS ${WORK}/unpacked/usr/${file})
    message(FATAL_ERROR "no package has /usr/${file}")
  endif()
endforeach()
run(plan ${WORK}/unpacked/usr/bin/dynamix-node check --cluster ${WORK}/unpacked/usr/share/dynamix/clusters/local-4.toml)
# The default is the unpacked example, not the source tree's: a resumed run's copy of the file names the policy with its path.
run(trained ${WORK}/unpacked/usr/bin/dynamix-node local --epochs 1 --set training.target_accuracy=0.1 --set dashboard.listen=
    --out ${WORK}/run)
file(READ ${WORK}/run/cluster.toml used)
if(NOT used MATCHES "${WORK}/unpacked/usr/share/dynamix/policies/ppo.dynamix")
  message(FATAL_ERROR "the run did not use the unpacked policy:\n${used}")
endif()
