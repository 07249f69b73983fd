// dgap._dgap: dgap/runtime.hpp for Python. Arrays are taken where they lie (buffer protocol,
// DLPack).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <dgap/runtime.hpp>
#include <limits>
#include <optional>

namespace nb = nanobind;

namespace {

/// Handles are handed to one call at a time, though calls release the interpreter's lock. Counted
/// under that lock.
class Use {
 public:
  Use(int& count, bool shared, const char* what) : count_(count) {
    if (count != 0 && !shared) {
      throw dgap::RuntimeError(
          DGAP_INVALID_ARGUMENT,
          std::string("this ") + what + " is in use by another thread: each thread needs its own");
    }
    ++count_;
  }
  Use(const Use&) = delete;
  ~Use() { --count_; }

 private:
  int& count_;
};

struct Context {
  dgap::Context impl;
  int uses = 0;
};

struct Controller {
  dgap::Controller impl;
  int uses = 0;
};

struct Restorer {
  dgap::Restorer impl;
  nb::object controller;  // kept alive while it is set
  int uses = 0;
};

struct Results {
  std::vector<dgap_result> rows;
  bool scalar;  // of a one-dimensional array
};

[[noreturn]] void raise(const char* name, const std::string& message) {
  nb::object type = nb::module_::import_("dgap.errors").attr(name);
  PyErr_SetString(type.ptr(), message.c_str());
  throw nb::python_error();
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const dgap::RuntimeError& error) {
    nb::object types = nb::module_::import_("dgap.errors").attr("BY_STATUS");
    PyErr_SetString(nb::object(types[static_cast<int>(error.status())]).ptr(), error.what());
  }
}

using AnyArray = nb::ndarray<nb::ro>;

/// The array behind `object`, which may not have one, or may be read-only where `writable`.
AnyArray array_of(nb::handle object, bool writable, const std::string& name) {
  AnyArray array;
  if (!nb::try_cast(object, array, false)) {
    std::string why;
    if (nb::hasattr(object, "__dlpack__")) {
      try {
        object.attr("__dlpack__")();
      } catch (const nb::python_error& error) {
        why = std::string(" (") + nb::str(error.value()).c_str() + ")";
      }
    }
    raise("ArrayTypeError", name + " is a " + nb::type_name(object.type()).c_str() +
                                " that gives no array" + why +
                                ": pass a numpy array or a torch tensor on the CPU");
  }
  nb::ndarray<> in_place;
  if (writable && !nb::try_cast(object, in_place, false)) {
    raise("ArrayTypeError",
          name + " is read-only and cannot be corrected in place: pass a writable copy");
  }
  if (array.device_type() != nb::device::cpu::value) {
    raise("ArrayTypeError", name + " is on another device (DLPack type " +
                                std::to_string(array.device_type()) +
                                "): copy it to the CPU, and the corrected rows back");
  }
  return array;
}

std::int32_t dtype_of(const AnyArray& array, const std::string& name) {
  using nb::dlpack::dtype_code;
  const nb::dlpack::dtype type = array.dtype();
  const auto is = [&](dtype_code code, int bits) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == bits && type.lanes == 1;
  };
  if (is(dtype_code::Float, 32)) return DGAP_F32;
  if (is(dtype_code::Float, 16)) return DGAP_F16;
  if (is(dtype_code::Bfloat, 16)) return DGAP_BF16;
  raise("ArrayTypeError", name + " has DLPack type code " + std::to_string(type.code) + " of " +
                              std::to_string(type.bits) +
                              " bits: float32, float16 and bfloat16 are taken");
}

/// [width] or [rows, width] with any strides, as the C interface describes it.
dgap_logits view_of(const AnyArray& array, const std::string& name) {
  const std::size_t dimensions = array.ndim();
  if (dimensions != 1 && dimensions != 2) {
    raise("InvalidArgumentError", name + " has " + std::to_string(dimensions) +
                                      " dimensions: pass [width] or [rows, width]");
  }
  const std::int32_t dtype = dtype_of(array, name);
  const auto size = static_cast<std::int64_t>(array.itemsize());
  const bool many = dimensions == 2;
  const auto rows = many ? static_cast<std::int64_t>(array.shape(0)) : 1;
  const auto width = static_cast<std::int64_t>(array.shape(many ? 1 : 0));
  dgap_logits view{const_cast<void*>(array.data()), dtype, rows, width, width * size, size};
  if (rows > 0 && width > 0) {  // strides of empty arrays say nothing
    if (many) view.row_stride = array.stride(0) * size;
    view.element_stride = array.stride(many ? 1 : 0) * size;
  }
  return view;
}

/// The T behind `object`, which may be anything.
template <class T>
T& instance_of(nb::handle object, const char* name) {
  if (nb::isinstance<T>(object)) return nb::cast<T&>(object);
  raise("InvalidArgumentError", std::string("a ") + nb::type_name(object.type()).c_str() +
                                    " was passed where a dgap." + name + " is taken");
}

/// One context, or a sequence of as many as there are rows.
std::vector<Context*> contexts_of(nb::handle object, std::int64_t rows) {
  if (object.is_none()) {
    raise("InvalidArgumentError", "this precision takes the text before each row: pass contexts");
  }
  std::vector<Context*> contexts;
  if (nb::isinstance<Context>(object)) {
    contexts.push_back(nb::cast<Context*>(object));
  } else {
    for (nb::handle context : nb::iter(object)) {
      contexts.push_back(&instance_of<Context>(context, "Context"));
    }
  }
  if (static_cast<std::int64_t>(contexts.size()) != rows) {
    raise("InvalidArgumentError", "there are " + std::to_string(contexts.size()) +
                                      " contexts for " + std::to_string(rows) + " rows");
  }
  return contexts;
}

Results score(Restorer& restorer, nb::handle logits) {
  const AnyArray array = array_of(logits, false, "logits");
  const dgap_logits view = view_of(array, "logits");
  Results results{std::vector<dgap_result>(static_cast<std::size_t>(view.rows)), array.ndim() == 1};
  const Use use(restorer.uses, false, "restorer");
  nb::gil_scoped_release released;
  restorer.impl.score(view, results.rows);
  return results;
}

Results restore(Restorer& restorer, nb::handle logits, nb::handle contexts, nb::handle hidden) {
  const AnyArray array = array_of(logits, true, "logits");
  const dgap_logits view = view_of(array, "logits");
  std::vector<Context*> texts;
  if (restorer.impl.takes_context()) texts = contexts_of(contexts, view.rows);
  AnyArray states;
  dgap_logits hidden_view{};
  if (restorer.impl.takes_hidden()) {
    if (hidden.is_none()) {
      raise("InvalidArgumentError", "this precision takes the final hidden states: pass hidden");
    }
    states = array_of(hidden, false, "hidden");
    hidden_view = view_of(states, "hidden");
  }
  Results results{std::vector<dgap_result>(static_cast<std::size_t>(view.rows)), array.ndim() == 1};
  std::vector<const dgap_context*> handles;
  std::vector<std::unique_ptr<Use>> uses;
  for (Context* text : texts) {
    handles.push_back(text->impl.handle());
    uses.push_back(std::make_unique<Use>(text->uses, true, "context"));
  }
  const Use use(restorer.uses, false, "restorer");
  std::optional<Use> controlled;
  if (nb::isinstance<Controller>(restorer.controller)) {
    controlled.emplace(nb::cast<Controller&>(restorer.controller).uses, false, "controller");
  }
  nb::gil_scoped_release released;
  restorer.impl.restore(view, handles, hidden_view, results.rows);
  return results;
}

void set_controller(Restorer& restorer, nb::object controller) {
  const Use use(restorer.uses, false, "restorer");
  Controller* const now =
      controller.is_none() ? nullptr : &instance_of<Controller>(controller, "Controller");
  restorer.impl.set_controller(now == nullptr ? nullptr : &now->impl);
  restorer.controller = std::move(controller);
}

std::int32_t checked_id(std::int64_t id) {
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
    throw dgap::RuntimeError(DGAP_INVALID_ARGUMENT, std::to_string(id) + " is not a token's id");
  }
  return static_cast<std::int32_t>(id);
}

template <class Integer>
std::vector<std::int32_t> ids_in(const AnyArray& array) {
  std::vector<std::int32_t> ids;
  const auto* const data = static_cast<const Integer*>(array.data());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(array.shape(0)); ++i) {
    ids.push_back(checked_id(static_cast<std::int64_t>(data[i * array.stride(0)])));
  }
  return ids;
}

/// An integer, a sequence of integers, or an array [tokens] of them.
std::vector<std::int32_t> ids_of(nb::handle object) {
  const auto single = [](nb::handle id) {
    std::int64_t number = -1;
    if (!nb::try_cast(id, number)) {
      raise("InvalidArgumentError", std::string(nb::repr(id).c_str()) + " is not a token's id");
    }
    return checked_id(number);
  };
  if (!nb::hasattr(object, "__iter__")) return {single(object)};
  if (nb::ndarray_check(object)) {
    const AnyArray array = array_of(object, false, "ids");
    if (array.ndim() == 1 && array.dtype() == nb::dtype<std::int32_t>()) {
      return ids_in<std::int32_t>(array);
    }
    if (array.ndim() == 1 && array.dtype() == nb::dtype<std::int64_t>()) {
      return ids_in<std::int64_t>(array);
    }
    raise("ArrayTypeError", "ids must be an array [tokens] of int32 or int64");
  }
  std::vector<std::int32_t> ids;
  for (nb::handle id : nb::iter(object)) ids.push_back(single(id));
  return ids;
}

/// One field of all results, as a view.
template <class T>
nb::ndarray<nb::numpy, const T> field(nb::handle self, T dgap_result::*member) {
  const auto& results = nb::cast<const Results&>(self);
  const T* const first = results.rows.empty() ? nullptr : &(results.rows[0].*member);
  const std::size_t shape[] = {results.rows.size()};
  const std::int64_t strides[] = {sizeof(dgap_result) / sizeof(T)};
  static_assert(sizeof(dgap_result) % sizeof(T) == 0);
  return {first, results.scalar ? 0u : 1u, shape, self, strides};
}

void bind_bundle(nb::module_& module) {
  nb::class_<dgap::Bundle>(module, "Bundle",
                           "An opened, fully verified bundle. Threads may share it.")
      .def(
          "__init__",
          [](dgap::Bundle* self, const std::filesystem::path& path) {
            nb::gil_scoped_release released;
            new (self) dgap::Bundle(path.string());
          },
          nb::arg("path"), "Opens a bundle directory; every file is checked for size and hash.")
      .def_prop_ro(
          "precisions",
          [](const dgap::Bundle& self) {
            std::vector<std::string> names;
            for (const std::string_view name : self.precisions()) names.emplace_back(name);
            return names;
          },
          "Names of the precisions, in order.")
      .def_prop_ro("vocab_size", &dgap::Bundle::vocab_size, "Ids below it may be corrected.")
      .def_prop_ro("hidden_size", &dgap::Bundle::hidden_size)
      .def_prop_ro(
          "manifest",
          [](const dgap::Bundle& self) -> nb::dict {
            const std::string_view text = self.manifest();
            return nb::cast<nb::dict>(
                nb::module_::import_("json").attr("loads")(nb::str(text.data(), text.size())));
          },
          "manifest.json as it was verified (schemas/bundle/bundle-format.md); a new dict.")
      .def(
          "restorer",
          [](const dgap::Bundle& self, const std::string& precision) {
            return new Restorer{dgap::Restorer(self, precision), nb::none()};
          },
          nb::arg("precision"), "A restorer of one precision, with the scratch of one thread.");
}

void bind_sequences(nb::module_& module) {
  nb::class_<Context>(module, "Context",
                      "The token ids of one sequence, for precisions that take the context.")
      .def(
          "__init__",
          [](Context* self, const dgap::Bundle& bundle, std::int64_t capacity) {
            new (self) Context{dgap::Context(bundle, capacity)};
          },
          nb::arg("bundle"), nb::arg("capacity") = 0,
          "`capacity` tokens fit without another allocation.")
      .def(
          "begin",
          [](Context& self, nb::handle ids) {
            const Use use(self.uses, false, "context");
            self.impl.begin(ids_of(ids));
          },
          nb::arg("ids"), "Forgets everything and begins with the prompt's ids.")
      .def(
          "accept",
          [](Context& self, nb::handle ids) {
            const Use use(self.uses, false, "context");
            self.impl.accept(ids_of(ids));
          },
          nb::arg("ids"), "Appends an id, or several: sampled, or proposed by a draft.")
      .def(
          "roll_back",
          [](Context& self, std::int64_t count) {
            const Use use(self.uses, false, "context");
            self.impl.roll_back(count);
          },
          nb::arg("count"), "Takes back the last ids, as if they had never been accepted.")
      .def_prop_ro("length", [](const Context& self) { return self.impl.length(); })
      .def("__len__", [](const Context& self) { return self.impl.length(); });

  nb::class_<Controller>(module, "Controller",
                         "Holds the correction rate of one sequence by moving tau.")
      .def(
          "__init__",
          [](Controller* self, const dgap::Bundle& bundle, const std::string& precision) {
            new (self) Controller{dgap::Controller(bundle, precision)};
          },
          nb::arg("bundle"), nb::arg("precision"))
      .def(
          "reset",
          [](Controller& self) {
            const Use use(self.uses, false, "controller");
            self.impl.reset();
          },
          "Back to the bundle's tau: a new sequence begins.")
      .def_prop_ro("tau", [](const Controller& self) { return self.impl.tau(); });
}

void bind_restorer(nb::module_& module) {
  nb::class_<Restorer>(module, "Restorer",
                       "One precision of a bundle. One thread at a time; outlives its bundle.")
      .def("score", &score, nb::arg("logits"),
           "Verdict, risk and window of every row; logits [width] or [rows, width] stay as they "
           "are.")
      .def("restore", &restore, nb::arg("logits"), nb::arg("contexts") = nb::none(),
           nb::arg("hidden") = nb::none(),
           "The same, and rows with the verdict RESTORE are corrected in place. contexts: a "
           "Context for one row, else one per row; hidden: [rows, hidden_size]. Each is needed "
           "where takes_context or takes_hidden says so, and not looked at elsewhere.")
      .def("set_controller", &set_controller, nb::arg("controller").none(),
           "Rows are those of this controller's sequence from now on; None: the bundle's tau.")
      .def_prop_ro("takes_context", [](const Restorer& self) { return self.impl.takes_context(); })
      .def_prop_ro("takes_hidden", [](const Restorer& self) { return self.impl.takes_hidden(); });

  nb::enum_<dgap_verdict>(module, "Verdict", nb::is_arithmetic())
      .value("KEEP", DGAP_KEEP, "risk <= tau: the row is as it was")
      .value("RESTORE", DGAP_RESTORE, "the window was corrected")
      .value("ESCALATE", DGAP_ESCALATE, "distorted and not covered: the row is as it was")
      .value("REJECTED", DGAP_REJECTED, "NaN, +inf or nothing finite: the row is as it was");

  nb::class_<Results>(module, "Results", "One verdict, risk and window per row of logits.")
      .def("__len__", [](const Results& self) { return self.rows.size(); })
      .def_prop_ro(
          "verdict", [](nb::handle self) { return field(self, &dgap_result::verdict); },
          "int32 [rows] of Verdict; a scalar for logits [width]")
      .def_prop_ro(
          "risk", [](nb::handle self) { return field(self, &dgap_result::risk); },
          "float32 [rows], sigmoid of the detector; NaN where rejected")
      .def_prop_ro(
          "window", [](nb::handle self) { return field(self, &dgap_result::window); },
          "int32 [rows], candidates used");
}

}  // namespace

NB_MODULE(_dgap, module) {
  nb::register_exception_translator(translate);
  module.def("runtime_version", [] { return std::string(dgap_runtime_version()); });
  bind_bundle(module);
  bind_sequences(module);
  bind_restorer(module);
}
