# What a CUDA build needs beyond llama.cpp's own rules: cuBLAS from the toolkit or from the wheel `nvidia-cublas`, and the
# folders in which the finished library looks for the CUDA runtime. docs/native.md describes the options.
#
# power_prepare_cuda() comes before llama.cpp's folder, power_use_cuda(target) after the library that is linked with it.

set(POWER_CUBLAS_ROOT "" CACHE PATH "Folder with include/ and lib/ of the wheel nvidia-cublas, for a toolkit without cuBLAS")

option(GGML_CUDA_GRAPHS "Repeat an evaluation of the same shape as one CUDA graph" ON)
# Without VMM nothing of the driver is called directly, so the library loads on machines without a driver.
option(GGML_CUDA_NO_VMM "Do not use the driver's virtual memory calls" ON)
option(GGML_CUDA_NCCL "Exchange between several GPUs with NCCL" OFF)

function(power_require_wheel_file path what)
    if(NOT EXISTS "${path}")
        message(FATAL_ERROR "POWER_CUBLAS_ROOT is '${POWER_CUBLAS_ROOT}', which holds no ${what} ('${path}'). "
                            "Install the wheel with `pip install nvidia-cublas` and name its folder nvidia/cu<major>.")
    endif()
endfunction()

# The wheel's folder may hold headers of other CUDA wheels, of another version than the compiler: only cuBLAS's are shown
# to it. The linker wants unversioned names, which the wheel lacks.
function(power_use_cublas_wheel major)
    set(view "${CMAKE_BINARY_DIR}/cublas")
    power_require_wheel_file("${POWER_CUBLAS_ROOT}/include/cublas_v2.h" "header of cuBLAS")
    file(GLOB headers "${POWER_CUBLAS_ROOT}/include/cublas*.h")
    file(COPY ${headers} DESTINATION "${view}/include")
    foreach(name cublas cublasLt)
        set(library "${POWER_CUBLAS_ROOT}/lib/lib${name}.so.${major}")
        power_require_wheel_file("${library}" "lib${name} for CUDA ${major}")
        file(MAKE_DIRECTORY "${view}/lib")
        file(CREATE_LINK "${library}" "${view}/lib/lib${name}.so" SYMBOLIC)
        set(CUDA_${name}_LIBRARY "${view}/lib/lib${name}.so" CACHE FILEPATH "" FORCE)
    endforeach()
    include_directories(SYSTEM "${view}/include")
endfunction()

# Without a choice llama.cpp compiles for the GPUs it finds here; where there is none, the result would fit no GPU.
function(power_require_architecture)
    if(NOT GGML_NATIVE OR DEFINED CMAKE_CUDA_ARCHITECTURES OR NOT "$ENV{CUDAARCHS}" STREQUAL "")
        return()
    endif()
    execute_process(COMMAND "${CUDAToolkit_BIN_DIR}/__nvcc_device_query" RESULT_VARIABLE failed OUTPUT_VARIABLE found
                    ERROR_QUIET)
    if(failed OR found STREQUAL "")
        message(FATAL_ERROR "no GPU was found here to compile for. Name the architectures of the GPUs to come, as in "
                            "CMAKE_ARGS=\"-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=90\".")
    endif()
endfunction()

macro(power_prepare_cuda)
    find_package(CUDAToolkit)
    if(NOT CUDAToolkit_FOUND)
        message(FATAL_ERROR "no CUDA toolkit found. Put nvcc on PATH, or set CUDACXX to it; without a toolkit build "
                            "without -DGGML_CUDA.")
    endif()
    set(cublas_origin "toolkit")
    # A wheel once used is in the cache as if the toolkit had it: the folder, not the target, decides when run again.
    if(POWER_CUBLAS_ROOT OR NOT TARGET CUDA::cublas)
        if(NOT POWER_CUBLAS_ROOT)
            message(FATAL_ERROR "the CUDA toolkit at '${CUDAToolkit_LIBRARY_DIR}' has no cuBLAS. Install its package, or "
                                "`pip install nvidia-cublas` and set POWER_CUBLAS_ROOT to that wheel's folder "
                                "nvidia/cu${CUDAToolkit_VERSION_MAJOR}; a build by pip does so itself.")
        endif()
        set(cublas_origin "wheel")
        power_use_cublas_wheel("${CUDAToolkit_VERSION_MAJOR}")
        find_package(CUDAToolkit REQUIRED)
    endif()
    power_require_architecture()
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}, cuBLAS from the ${cublas_origin}")
endmacro()

# The runtime is looked for in the wheels that stand beside the package, then in the toolkit that compiled it.
function(power_use_cuda target)
    target_compile_definitions(${target} PRIVATE POWER_CUDA)
    target_link_libraries(${target} PRIVATE CUDA::cudart)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH
        "$ORIGIN/../nvidia/cu${CUDAToolkit_VERSION_MAJOR}/lib;${CUDAToolkit_LIBRARY_DIR}")
endfunction()
