// Trains both networks on synthetic traces and prints the hashes of their weights: the same
// whatever the instruction set (compared by same_output.cmake).
#include <cstdio>

#include "base/sha256.hpp"
#include "tests/trainer/data.hpp"
#include "trainer/training.hpp"

int main(int argc, char** argv) {
  using namespace dgap;
  struct Form {
    const char *folder, *objective, *architecture, *form;
    std::vector<std::string> inputs = {"logits"};
  };
  const std::vector<std::string> all = {"logits", "context", "tokens", "hidden"};
  for (const Form& form : {Form{"paper", "paper", "mlp", "candidate"},
                           Form{"extended", "extended", "mlp", "candidate"},
                           Form{"window", "extended", "mlp", "window"},
                           Form{"transformer", "extended", "transformer", "candidate"},
                           Form{"linear", "extended", "linear", "candidate"},
                           Form{"vectors", "extended", "mlp", "candidate", all}}) {
    schemas::Config config = testing::make_config();
    config.corrector.objective = form.objective;
    config.corrector.architecture = form.architecture;
    config.corrector.form = form.form;
    config.corrector.inputs = form.inputs;
    config.training.epochs = 2;
    testing::TraceOptions options;
    trainer::PrecisionData data;
    data.name = "A";
    data.alpha = 0.9;
    data.training = trainer::make_samples(testing::make_trace(options), 0, config, 0.9, 37);
    options.split = "validation";
    data.validation_trace = testing::make_trace(options);
    data.validation = trainer::make_samples(data.validation_trace, 0, config, 0.9, 37);
    data.standardisation = trainer::standardisation(data.training);
    base::Progress progress;
    for (const auto& trained : {trainer::train_detector(config, data, progress),
                                trainer::train_corrector(config, data, progress)}) {
      if (argc > 1) {
        schemas::write_trained(std::filesystem::path(argv[1]) / form.folder, trained.info.tensors,
                               trained);
      }
      std::printf("%s %s loss %a\n", trained.info.tensors.c_str(),
                  base::sha256_hex(schemas::encode_safetensors(trained.tensors)).c_str(),
                  trained.figures.validation_loss.back());
    }
  }
}
