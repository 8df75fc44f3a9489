/* call_error.c: the last error of the thread, and what errors are called. Nothing is sent. */
#include "client_priv.h"

int hipGetLastError(void)
{
    return halo_client_last_error(true);
}

int hipPeekAtLastError(void)
{
    return halo_client_last_error(false);
}

int hipExtGetLastError(void)
{
    return halo_client_last_error(true);
}

static const struct {
    int error;
    const char *name, *text;
} names[] = {
    {HIP_SUCCESS, "hipSuccess", "no error"},
    {HIP_INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {HIP_OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {HIP_NOT_INITIALIZED, "hipErrorNotInitialized", "initialization error"},
    {HIP_DEINITIALIZED, "hipErrorDeinitialized", "driver shutting down"},
    {HIP_INVALID_CONFIGURATION, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {HIP_INVALID_PITCH, "hipErrorInvalidPitchValue", "invalid pitch argument"},
    {HIP_INVALID_SYMBOL, "hipErrorInvalidSymbol", "invalid device symbol"},
    {HIP_INVALID_DEVICE_FUNCTION, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {HIP_NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {HIP_INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {HIP_INVALID_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {HIP_NO_BINARY_FOR_GPU, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {HIP_FILE_NOT_FOUND, "hipErrorFileNotFound", "file not found"},
    {HIP_INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {HIP_ILLEGAL_STATE, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {HIP_NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {HIP_NOT_READY, "hipErrorNotReady", "device not ready"},
    {HIP_ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "hipErrorLaunchOutOfResources", "out of resources"},
    {HIP_LAUNCH_TIMEOUT, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {HIP_PEER_ALREADY_ENABLED, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {HIP_CONTEXT_IS_DESTROYED, "hipErrorContextIsDestroyed", "context is destroyed"},
    {HIP_ASSERT, "hipErrorAssert", "device-side assert triggered"},
    {HIP_HOST_ALREADY_REGISTERED, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is "
     "already mapped"},
    {HIP_HOST_NOT_REGISTERED, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory "
     "region"},
    {HIP_LAUNCH_FAILURE, "hipErrorLaunchFailure", "unspecified launch failure"},
    {HIP_NOT_SUPPORTED, "hipErrorNotSupported", "operation not supported"},
    {HIP_CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "hipErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {907, "hipErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {HIP_UNKNOWN, "hipErrorUnknown", "unknown error"},
};

const char *hipGetErrorName(int error)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (names[i].error == error)
            return names[i].name;
    return "hipErrorUnknown";
}

int hipDrvGetErrorName(int error, const char **ret)
{
    if (ret)
        *ret = hipGetErrorName(error);
    return ret ? HIP_SUCCESS : HIP_INVALID_VALUE;
}

int hipDrvGetErrorString(int error, const char **ret)
{
    if (ret)
        *ret = hipGetErrorString(error);
    return ret ? HIP_SUCCESS : HIP_INVALID_VALUE;
}

const char *hipGetErrorString(int error)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (names[i].error == error)
            return names[i].text;
    return "unknown error";
}
