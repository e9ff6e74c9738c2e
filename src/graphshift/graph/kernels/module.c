/* Makes the kernels importable as `graphshift.native._library`, so that pip builds and places them; they are called by
   ctypes, and Python sees an empty module. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "common.h"

/* Raised when what a kernel takes changes and its name does not, so that an old library is not called by new code. */
EXPORT int32_t graphshift_interface(void) { return 5; }

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_library", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__library(void) { return PyModule_Create(&definition); }
