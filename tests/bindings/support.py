"""What the tests share: toy bundles, the C interface as the reference, arrays of any kind.

Environment: DGAP_MAKE_BUNDLE (dgap_probe_make_bundle), DGAP_RUNTIME_LIBRARY (libdgap_runtime.so).
"""
import ctypes
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

VOCABULARY, WINDOW, HIDDEN = 997, 16, 64
_folder = tempfile.TemporaryDirectory()


def model_file():
    """DGAP_TEST_MODEL; without it the test is skipped (tests/bindings/CMakeLists.txt)."""
    if "DGAP_TEST_MODEL" not in os.environ:
        print("DGAP_TEST_MODEL is not set")
        sys.exit(77)
    return pathlib.Path(os.environ["DGAP_TEST_MODEL"])


def make_bundle(vocabulary=VOCABULARY, hidden=HIDDEN, scheme=None, **model):
    """A toy bundle; scheme: of all precisions; model: keys of the manifest's base_model that it gets."""
    path = pathlib.Path(tempfile.mkdtemp(dir=_folder.name)) / "bundle"
    subprocess.run([os.environ["DGAP_MAKE_BUNDLE"], path, str(vocabulary), str(WINDOW), "3", str(hidden)], check=True)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["base_model"].update(model)
    for entry in manifest["precisions"].values():
        entry["scheme"] = scheme or entry["scheme"]
    text = json.dumps(manifest).encode()
    sums = (path / "SHA256SUMS").read_text().splitlines(keepends=True)
    sums = [f"{hashlib.sha256(text).hexdigest()}  manifest.json\n" if line.endswith("  manifest.json\n") else line
            for line in sums]
    (path / "manifest.json").write_bytes(text)
    (path / "SHA256SUMS").write_text("".join(sums))
    return path


def random_rows(rows, width=VOCABULARY, seed=1):
    return np.random.default_rng(seed).normal(0, 3, (rows, width)).astype(np.float32)


class _View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rows", ctypes.c_int64),
                ("width", ctypes.c_int64), ("row_stride", ctypes.c_int64), ("element_stride", ctypes.c_int64)]


RESULT = np.dtype([("verdict", np.int32), ("window", np.int32), ("risk", np.float32)])


class Reference:
    """One precision through the C interface of the shared library: contiguous f32 rows."""

    def __init__(self, bundle, precision):
        self._c = ctypes.CDLL(os.environ["DGAP_RUNTIME_LIBRARY"])
        self._c.dgap_last_error.restype = ctypes.c_char_p
        self._bundle, self._restorer = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._c.dgap_bundle_open(str(bundle).encode(), ctypes.byref(self._bundle)))
        self._check(self._c.dgap_restorer_create(self._bundle, precision.encode(), ctypes.byref(self._restorer)))

    def _check(self, status):
        assert status == 0, self._c.dgap_last_error()

    def _context(self, ids):
        context, array = ctypes.c_void_p(), np.asarray(ids, np.int32)
        self._check(self._c.dgap_context_create(self._bundle, ctypes.c_int64(0), ctypes.byref(context)))
        self._check(self._c.dgap_context_begin(context, array.ctypes.data_as(ctypes.c_void_p),
                                               ctypes.c_int64(array.size)))
        return context

    def restore(self, rows, texts=None, hidden=None):
        """The rows as they become, and the results; texts: the ids before every row."""
        rows = np.array(rows, np.float32, ndmin=2)
        results = np.zeros(len(rows), RESULT)
        contexts = (ctypes.c_void_p * len(rows))(*[self._context(t).value for t in texts]) if texts else None
        self._check(self._c.dgap_restorer_restore_with(self._restorer, contexts, _view(hidden), _view(rows),
                                                       results.ctypes.data_as(ctypes.c_void_p)))
        for context in contexts or ():
            self._c.dgap_context_destroy(ctypes.c_void_p(context))
        return rows, results

    def __del__(self):
        self._c.dgap_restorer_destroy(self._restorer)
        self._c.dgap_bundle_close(self._bundle)


def _view(rows):
    if rows is None:
        return None
    assert rows.dtype == np.float32 and rows.flags.c_contiguous
    return ctypes.byref(_View(rows.ctypes.data, 0, *rows.shape, rows.strides[0], 4))


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _Type),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


BFLOAT, FLOAT, CPU, CUDA = 4, 2, 1, 2


class Dlpack:
    """An array of numpy's memory as another library gives it: bfloat16, or on another device."""

    def __init__(self, array, code=FLOAT, device=CPU):
        self.array, self.device = array, device
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._strides = (ctypes.c_int64 * array.ndim)(*[s // array.itemsize for s in array.strides])
        self._tensor = _Tensor(array.ctypes.data, _Device(device, 0), array.ndim, _Type(code, array.itemsize * 8, 1),
                               ctypes.addressof(self._shape), ctypes.addressof(self._strides), 0, None, None)

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


def to_bfloat16(rows):
    """Bits of the nearest bfloat16, half to even, of finite f32."""
    bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)
