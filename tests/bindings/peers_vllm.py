"""The stand-ins of test_vllm.py against vLLM's source: names and parameters agree.

DGAP_VLLM_SOURCE: the unpacked source package. Nothing of it is imported.
"""
import ast
import dataclasses
import inspect
import os
import pathlib
import tomllib
import unittest
from unittest import mock

import test_vllm as stand_in
from dgap import vllm as adapter

SOURCE = pathlib.Path(os.environ["DGAP_VLLM_SOURCE"]) / "vllm"
V1 = "v1/sample/logits_processor/interface.py"
V2 = "v1/worker/gpu/sample/logits_processor/interface.py"


def definition(path, name):
    tree = ast.parse((SOURCE / path).read_text())
    return next(node for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name)


def methods(node):
    return {item.name: [argument.arg for argument in item.args.args] for item in node.body
            if isinstance(item, ast.FunctionDef)}


def fields(node):
    return [item.target.id for item in ast.walk(node)
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]


def our_fields(ours):
    return [field.name for field in dataclasses.fields(ours)]


class VllmSourceTest(unittest.TestCase):
    def same_methods(self, path, ours):
        real = methods(definition(path, "LogitsProcessor"))
        self.assertEqual(set(real), {name for name in vars(ours) if inspect.isroutine(vars(ours)[name])})
        for name, parameters in real.items():
            function = getattr(vars(ours)[name], "__func__", vars(ours)[name])
            self.assertEqual(parameters, list(inspect.signature(function).parameters), name)
            inspect.signature(getattr(adapter.LogitsProcessor, name)).bind(*[None] * self.bound(name, parameters))

    @staticmethod
    def bound(name, parameters):
        """Arguments of a call through the class: without the class itself for class methods."""
        return len(parameters) - (parameters[0] == "cls")

    def test_v1(self):
        self.same_methods(V1, stand_in.V1LogitsProcessor)
        self.assertEqual(fields(definition(V1, "BatchUpdate")), our_fields(stand_in.BatchUpdate))
        moves = [item.targets[0].id for item in definition(V1, "MoveDirectionality").body if isinstance(item, ast.Assign)]
        self.assertEqual(moves, [move.name for move in stand_in.MoveDirectionality])
        helper = definition("v1/sample/logits_processor/builtin.py", "process_dict_updates")
        self.assertEqual([argument.arg for argument in helper.args.args],
                         list(inspect.signature(stand_in.process_dict_updates).parameters))

    def test_v2(self):
        self.same_methods(V2, stand_in.V2LogitsProcessor)
        self.assertEqual(fields(definition(V2, "LogitsContext")), our_fields(stand_in.LogitsContext))
        self.assertIn("all_token_ids", fields(definition(V2, "LogitsProcRequestState")))
        staged = ast.unparse(definition("v1/worker/gpu/buffer_utils.py", "StagedWriteTensor"))
        self.assertIn("self.gpu = ", staged)

    def test_where_both_are_found(self):
        for module, path in (("v1/sample/logits_processor/__init__.py", ("LogitsProcessor", "process_dict_updates")),
                             ("v1/worker/gpu/sample/logits_processor/__init__.py", ("LogitsProcessor",))):
            imported = {alias.name for node in ast.walk(ast.parse((SOURCE / module).read_text()))
                        if isinstance(node, ast.ImportFrom) for alias in node.names}
            self.assertLessEqual(set(path), imported)
        project = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        self.assertEqual(project["entry-points"], {"vllm.logits_processors": {"dgap": "dgap.vllm:LogitsProcessor"}})
        for loader in ("v1/sample/logits_processor/__init__.py", "v1/worker/gpu/sample/logits_processor/loader.py"):
            self.assertIn('LOGITSPROCS_GROUP = "vllm.logits_processors"', (SOURCE / loader).read_text())
        self.assertTrue(issubclass(adapter.LogitsProcessor, stand_in.V1LogitsProcessor))
        self.assertTrue(issubclass(adapter.LogitsProcessor, stand_in.V2LogitsProcessor))

    def test_what_is_read_of_configurations_and_parameters(self):
        parameters = fields(definition("sampling_params.py", "SamplingParams"))
        self.assertLessEqual({"extra_args", *adapter._MASKS, *adapter._PENALTIES}, set(parameters))
        engine, model = definition("config/vllm.py", "VllmConfig"), definition("config/model.py", "ModelConfig")
        self.assertLessEqual({"additional_config", "model_config", "cache_config"}, set(fields(engine)))
        self.assertLessEqual({"get_vocab_size", "get_hidden_size", "architectures"}, set(methods(model)))
        self.assertIn("cache_dtype", fields(definition("config/cache.py", "CacheConfig")))
        source = (SOURCE / "config/cache.py").read_text()
        for name in (*adapter._EXACT, *adapter._FP8, *(f"turboquant_{kind}" for kind in adapter._TURBOQUANT)):
            self.assertIn(f'"{name}"', source)

    def test_the_order_that_is_reported(self):
        """V1: biases before, penalties after custom processors; Model Runner V2: both before."""
        first = ast.unparse(definition("v1/sample/sampler.py", "apply_logits_processors"))
        self.assertLess(first.index("allowed_token_ids_mask"), first.index("non_argmax_invariant"))
        self.assertLess(first.index("apply_bad_words("), first.index("non_argmax_invariant"))
        self.assertLess(first.index("non_argmax_invariant"), first.index("apply_penalties("))
        second = ast.unparse(definition("v1/worker/gpu/sample/sampler.py", "Sampler"))
        listed = second[second.index("self.logits_processors: list[LogitsProcessor] = ["):]
        self.assertTrue(0 < listed.index("penalties_state") < listed.index("*custom_logits_processors"))
        self.assertLess(listed.index("logit_bias_state"), listed.index("*custom_logits_processors"))


class WithTheRealUpdates(stand_in.VllmTest):
    """The adapter's tests once more, with vLLM's own process_dict_updates."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        node = definition("v1/sample/logits_processor/builtin.py", "process_dict_updates")
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        scope = {"MoveDirectionality": stand_in.MoveDirectionality}
        exec(compile(ast.Module([node], []), "builtin.py", "exec"), scope)
        cls.enterClassContext(mock.patch.object(adapter, "process_dict_updates", scope["process_dict_updates"]))


if __name__ == "__main__":
    unittest.main()
