# npm ci of the packages that SOURCE/package-lock.json names, into OUT/node_modules, as a build step:
#   cmake -DNPM=... -DSOURCE=... -DOUT=... -P npm_ci.cmake
file(MAKE_DIRECTORY ${OUT})
file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json ${SOURCE}/.npmrc DESTINATION ${OUT})
execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --prefer-offline
  WORKING_DIRECTORY ${OUT} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "npm ci in ${SOURCE} failed; it needs npm's registry, or npm's cache of an earlier build. "
    "For a program without the live page: cmake --preset release -DDYNAMIX_DASHBOARD=OFF\n${said}")
endif()
file(TOUCH ${OUT}/done)
