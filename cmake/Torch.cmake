# dynamix::torch, one target: headers and libraries of the PyTorch that is at hand (find_torch.cmake).
include(${CMAKE_CURRENT_LIST_DIR}/find_torch.cmake)
dynamix_find_torch()
if(NOT DYNAMIX_TORCH_DIRECTORY)
  message(FATAL_ERROR "${torch_problem}. `make` installs one in build/venv; or activate a virtual environment that has "
    "one, or give -DDYNAMIX_TORCH=DIRECTORY.")
endif()
message(STATUS "PyTorch ${torch_version} of ${torch_origin} (${torch_library_directory})")
set(DYNAMIX_TORCH_VERSION ${torch_version})
set(DYNAMIX_TORCH_BEFORE "${DYNAMIX_TORCH_DIRECTORY}|${torch_origin}|${torch_python}" CACHE INTERNAL "")
if(NOT DYNAMIX_PYTHON) # the Python whose scripts run on this torch, in tests
  set(DYNAMIX_PYTHON ${torch_python})
endif()

# A wheel's include directory holds other libraries' headers, too, of other versions than ours: a directory of our own
# names the ones that are Torch's.
set(torch_headers ${CMAKE_BINARY_DIR}/torch-include)
file(MAKE_DIRECTORY ${torch_headers})
foreach(directory ATen c10 caffe2 torch)
  file(CREATE_LINK ${torch_include}/${directory} ${torch_headers}/${directory} SYMBOLIC)
endforeach()
add_library(dynamix_torch INTERFACE)
add_library(dynamix::torch ALIAS dynamix_torch)
target_include_directories(dynamix_torch SYSTEM INTERFACE ${torch_headers} ${torch_headers}/torch/csrc/api/include)
target_link_libraries(dynamix_torch INTERFACE ${torch_library_directory}/libtorch_cpu.so ${torch_library_directory}/libc10.so)
set(DYNAMIX_TORCH_CUDA 0)
if(EXISTS ${torch_library_directory}/libtorch_cuda.so)
  set(DYNAMIX_TORCH_CUDA 1)
  # It registers itself when it is loaded, so nothing refers to it.
  target_link_libraries(dynamix_torch INTERFACE -Wl,--push-state,--no-as-needed ${torch_library_directory}/libtorch_cuda.so
    ${torch_library_directory}/libc10_cuda.so -Wl,--pop-state)
endif()
