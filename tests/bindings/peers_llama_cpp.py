"""dgap in llama.cpp, by llama-cpp-python: a real model over a quantised cache.

The C++ sampler in a chain of its own, and the Python processor in create_completion, must both decode
as a loop that restores the raw logits through the C interface. DGAP_LLAMA_HEADERS: folders with
llama.h and ggml.h of this llama.cpp, as a compiler takes them (-I...).
"""
import ctypes
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import dgap
import llama_cpp
import numpy as np
from dgap.llama_cpp import LogitsProcessor, describe_cache
from support import Reference, make_bundle, model_file

MODEL = str(model_file())
ROOT = pathlib.Path(__file__).parents[2]
STEPS = 16
PROMPT = "It is a truth universally acknowledged, that a single man in possession of a good fortune"
SCHEME = {"name": "mine", "family": "llamacpp", "key": {"quantizer": "q8_0"}, "value": {"quantizer": "q4_0"}}
_folder = tempfile.TemporaryDirectory()


def build_sampler():
    """dgap_sampler.cpp over the real llama.h, as a library that ctypes can load."""
    llama = next((pathlib.Path(llama_cpp.__file__).parent / "lib").glob("libllama.so*"))
    runtime, made = os.environ["DGAP_RUNTIME_LIBRARY"], pathlib.Path(_folder.name) / "libdgap_sampler.so"
    subprocess.run(["c++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT}",
                    f"-I{ROOT}/runtime/include", *os.environ["DGAP_LLAMA_HEADERS"].split(),
                    ROOT / "bindings/llama_cpp/dgap_sampler.cpp", llama, runtime, f"-Wl,-rpath,{llama.parent}",
                    f"-Wl,-rpath,{pathlib.Path(runtime).parent}", "-o", made], check=True)
    library = ctypes.CDLL(str(made))
    library.dgap_llama_sampler_create.restype = llama_cpp.llama_sampler_p_ctypes
    library.dgap_llama_sampler_create.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return library


class LlamaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = llama_cpp.Llama(MODEL, n_ctx=256, n_threads=2, type_k=llama_cpp.GGML_TYPE_Q8_0, flash_attn=True,
                                  type_v=llama_cpp.GGML_TYPE_Q4_0, verbose=False, seed=1)
        cls.prompt = cls.llm.tokenize(PROMPT.encode())
        cls.path = make_bundle(cls.llm.n_vocab(), cls.llm.n_embd(), SCHEME, architectures=["llama"])
        cls.bundle = dgap.Bundle(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def decode(self, choose):
        """The ids that `choose` takes, from the raw logits of the last row and the ids before it."""
        self.llm.reset()
        ids = list(self.prompt)
        self.llm.eval(ids)
        for _ in range(STEPS):
            logits = llama_cpp.llama_get_logits_ith(self.llm.ctx, -1)
            ids.append(choose(np.ctypeslib.as_array(logits, (self.llm.n_vocab(),)), ids))
            self.llm.eval(ids[-1:])
        return ids[len(self.prompt):]

    def by_hand(self, precision):
        reference = Reference(self.path, precision)
        return self.decode(lambda row, ids: int(reference.restore(row, [ids])[0][0].argmax()))

    def test_completions(self):
        plain = self.decode(lambda row, ids: int(row.argmax()))
        for precision in ("window", "context"):
            processor, made = LogitsProcessor(self.bundle, precision, self.llm, strict=True), []
            self.llm.reset()
            processors = llama_cpp.LogitsProcessorList([processor])
            for token in self.llm.generate(self.prompt, temp=0.0, logits_processor=processors):
                made.append(token)
                if len(made) == STEPS:
                    break
            self.assertEqual(made, self.by_hand(precision))
            self.assertNotEqual(made, plain, "the toy changes what is said")
            self.assertEqual(processor.results.verdict, dgap.Verdict.RESTORE)
        said = self.llm.create_completion(PROMPT, max_tokens=STEPS, temperature=0.0, logits_processor=processors)
        text = self.llm.detokenize(made, prev_tokens=self.prompt).decode(errors="ignore")
        self.assertEqual(said["choices"][0]["text"], text)

    def test_sampler_in_a_chain(self):
        library = build_sampler()
        c = ctypes.CDLL(os.environ["DGAP_RUNTIME_LIBRARY"])
        bundle = ctypes.c_void_p()
        self.assertEqual(c.dgap_bundle_open(str(self.path).encode(), ctypes.byref(bundle)), 0)
        for precision in ("window", "context"):
            chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
            repair = library.dgap_llama_sampler_create(bundle, precision.encode(), self.llm.model)
            self.assertTrue(repair)
            ids = (ctypes.c_int32 * len(self.prompt))(*self.prompt)
            self.assertEqual(library.dgap_llama_sampler_begin(repair, ids, len(ids)), 0)
            llama_cpp.llama_sampler_chain_add(chain, repair)
            llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_greedy())
            self.assertEqual(llama_cpp.llama_sampler_name(repair), b"dgap")
            made = self.decode(lambda row, ids: llama_cpp.llama_sampler_sample(chain, self.llm.ctx, -1))
            self.assertEqual(made, self.by_hand(precision))
            copy = llama_cpp.llama_sampler_clone(chain)
            llama_cpp.llama_sampler_reset(chain)
            for other in (copy, chain):
                llama_cpp.llama_sampler_free(other)
        c.dgap_bundle_close(bundle)

    def test_what_does_not_match_is_said(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", dgap.MismatchWarning)
            LogitsProcessor(self.bundle, "mlp", self.llm)
        other = dgap.Bundle(make_bundle(self.llm.n_vocab(), self.llm.n_embd(), architectures=["qwen2"]))
        for message in (r"family is None in the bundle and 'llamacpp' here",
                        r"\['qwen2'\] in the bundle and \['llama'\] here"):
            with self.assertWarnsRegex(dgap.MismatchWarning, message):
                LogitsProcessor(other, "mlp", self.llm)
        with self.assertRaisesRegex(dgap.MismatchError, "SHA-256"):
            LogitsProcessor(self.bundle, "mlp", self.llm, check_file=True, strict=True)
        with self.assertRaisesRegex(dgap.MismatchError, "these are 49152 wide"):
            LogitsProcessor(dgap.Bundle(make_bundle()), "mlp", self.llm)
        with self.assertRaisesRegex(dgap.UnsupportedError, "do not see"):
            LogitsProcessor(self.bundle, "hidden", self.llm)

    def test_caches_are_described(self):
        self.assertEqual(describe_cache(None, llama_cpp.GGML_TYPE_F16), {"family": "exact"})
        for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"):
            kind = getattr(llama_cpp, f"GGML_TYPE_{name.upper()}")
            self.assertEqual(describe_cache(kind, None)["key"]["quantizer"], name)


if __name__ == "__main__":
    unittest.main()
