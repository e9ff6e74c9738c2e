/* Makes the kernels importable as `graphshift.native._library`, so that pip builds and places them; they are called by
   ctypes, and Python sees an empty module. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_library", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__library(void) { return PyModule_Create(&definition); }
