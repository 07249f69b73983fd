"""Losses, gradients and AdamW against PyTorch: conformance_gradients.py PROBE

Everything between full logits and the gradient is written anew here, in f64, but for the detector's
features, which the runtime's own conformance test covers.
"""
import json
import subprocess
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
TOLERANCE = 1e-6  # features are standardised in f32 on one side
PROBE = sys.argv[1]


def ask(request):
    done = subprocess.run([PROBE], input=json.dumps(request), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def single(x):
    return x.float().double()


def standardised(x, over):
    mean, deviation = x.mean(over), x.std(over, unbiased=False)
    scale = torch.where(deviation > 1e-6 * mean.abs() + 1e-12, 1 / deviation, torch.zeros_like(deviation))
    return (x - single(mean)) * single(scale)


def network(flat, inputs, hidden):
    """f(x) of a flat vector of parameters, and what is left of it."""
    layers = []
    for outputs in [*hidden, 1]:
        weight = flat[: outputs * inputs].view(outputs, inputs)
        bias = flat[outputs * inputs : outputs * (inputs + 1)]
        flat, inputs = flat[outputs * (inputs + 1) :], outputs
        layers.append((weight, bias))

    def forward(x):
        for i, (weight, bias) in enumerate(layers):
            x = F.linear(F.gelu(x, approximate="tanh") if i else x, weight, bias)
        return x[..., 0]

    return forward, flat


def transformer(flat, inputs, dimensions):
    """The same of self-attention over the candidates: dimensions = [width, heads, blocks, hidden]."""
    width, heads, blocks, hidden = dimensions
    layers = []
    for i, o in [(inputs, width), *[(width, 3 * width), (width, width), (width, hidden), (hidden, width)] * blocks,
                 (width, 1)]:
        layers.append((flat[: o * i].view(o, i), flat[o * i : o * (i + 1)]))
        flat = flat[o * (i + 1) :]

    def forward(x):
        steps, k, _ = x.shape
        x = F.linear(x, *layers[0])
        for b in range(blocks):
            qkv, out, up, down = layers[1 + 4 * b : 5 + 4 * b]
            q, key, v = F.linear(x, *qkv).view(steps, k, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, key, v).transpose(1, 2).reshape(steps, k, width)
            x = x + F.linear(attended, *out)
            x = x + F.linear(F.gelu(F.linear(x, *up), approximate="tanh"), *down)
        return F.linear(x, *layers[-1])[..., 0]

    return forward, flat


def transformer_size(inputs, dimensions):
    width, _, blocks, hidden = dimensions
    block = 4 * width * (width + 1) + hidden * (width + 1) + width * (hidden + 1)
    return width * (inputs + 1) + blocks * block + width + 1


def whole_window(flat, window, own, hidden):
    """The same of a network of the whole window: x [steps, K, 20 + own] -> changes [steps, K]."""
    inputs, layers = 20 + window * own, []
    for outputs in [*hidden, window]:
        layers.append((flat[: outputs * inputs].view(outputs, inputs), flat[outputs * inputs : outputs * (inputs + 1)]))
        flat, inputs = flat[outputs * (inputs + 1) :], outputs

    def forward(x):
        x = torch.cat([x[:, 0, :20], x[:, :, 20:].flatten(1)], 1)
        for i, layer in enumerate(layers):
            x = F.linear(F.gelu(x, approximate="tanh") if i else x, *layer)
        return x

    return forward, flat


def shape_of(request, flat):
    if request["architecture"] == "transformer":
        return transformer(flat, 27, request["transformer"])
    if request["form"] == "window":
        return whole_window(flat, request["window"], 7, request["hidden"])
    return network(flat, 27, request["hidden"])


def size(inputs, hidden, last=1):
    total = 0
    for outputs in [*hidden, last]:
        total += outputs * (inputs + 1)
        inputs = outputs
    return total


def candidate_features(z, lse):
    k = z.shape[1]
    rank = torch.arange(k).double().log1p().expand_as(z)
    up = torch.cat([z[:, :1], z[:, :-1]], 1) - z
    down = z - torch.cat([z[:, 1:], z[:, -1:]], 1)
    logs = z - lse[:, None]
    return single(torch.stack([z - z.mean(1, keepdim=True), logs.exp(), logs, rank, z[:, :1] - z, up, down], -1))


def token_part(request, flat, phi, hidden, ids):
    """e_v . (b + W x) of every candidate, x the standardised features, hidden states, or both."""
    rank, vocab = request["rank"], request["vocab"]
    x = [phi] if "tokens" in request["inputs"] else []
    x = torch.cat(x + ([standardised(hidden, 0)] if "hidden" in request["inputs"] else []), 1)
    vectors, flat = flat[: vocab * rank].view(vocab, rank), flat[vocab * rank :]
    weight, bias = flat[: rank * x.shape[1]].view(rank, -1), flat[rank * x.shape[1] :]
    return (vectors[ids] * F.linear(x, weight, bias)[:, None]).sum(-1)


def corrector_loss(request, flat, features, hidden_states, reference, quantized):
    k, hidden, extended = request["window"], request["hidden"], request["objective"] == "extended"
    lse, lse_fp = quantized.logsumexp(1), reference.logsumexp(1)
    ids = torch.sort(quantized, dim=1, descending=True, stable=True).indices[:, :k]
    z, z_fp = quantized.gather(1, ids), reference.gather(1, ids)
    p = single((z_fp - lse_fp[:, None]).exp())
    phi = standardised(features, 0)
    xi = standardised(candidate_features(z, lse), (0, 1))
    shape, rest = shape_of(request, flat)
    delta = shape(torch.cat([phi[:, None, :].expand(-1, k, -1), xi], -1))
    offset = 0
    if extended:
        mass, rest = network(rest, 20, hidden)
        offset = mass(phi)[:, None]
    if request["inputs"] != ["logits"]:
        delta = delta + token_part(request, rest, phi, hidden_states, ids)
    edited = z + (delta + offset)
    if extended:
        tail = lse + torch.log((1 - (z - lse[:, None]).exp().sum(1)).clamp_min(2**-24))
        tail_p = (1 - (z_fp - lse_fp[:, None]).exp().sum(1)).clamp_min(2**-24)
        target = torch.cat([p, single(tail_p)[:, None]], 1)
        logs = torch.cat([edited, tail[:, None]], 1).log_softmax(1)
    else:
        temperature = request["temperature"]
        target = single((z_fp / temperature).softmax(1))
        logs = (edited / temperature).log_softmax(1)
    target_logs = (target / target.sum(1, keepdim=True)).log()
    kl = (target * (target_logs - logs)).sum(1)
    weight = (p[:, :, None] - p[:, None, :]) * (z_fp[:, :, None] > z_fp[:, None, :])
    pairs = (weight * F.softplus(edited[:, None, :] - edited[:, :, None])).sum((1, 2))
    total = kl + request["lambda_rank"] * pairs + request["lambda_reg"] * (delta**2).sum(1)
    return total.sum()


def check(name, got, expected, tolerance=TOLERANCE):
    got, expected = torch.as_tensor(got).double(), torch.as_tensor(expected).double()
    error = ((got - expected).abs().max() / expected.abs().max()).item()
    print(f"{name}: relative error {error:.1e}")
    if not error <= tolerance:
        sys.exit(f"{name}: {error:.3e} is above {tolerance:.0e}")


def check_gradients(objective, temperature, window, hidden, lambda_rank, lambda_reg, seed, form="candidate",
                    dimensions=None, inputs=("logits",)):
    torch.manual_seed(seed)
    steps, vocab = 24, 90
    spread = torch.rand(steps, 1) * 3 + 0.5
    reference = single(spread * torch.randn(steps, vocab))
    quantized = single(0.7 * reference + 0.5 * torch.randn(steps, vocab))
    extended = objective == "extended"
    shape_size = transformer_size(27, dimensions) if dimensions else size(27, hidden)
    if form == "window":
        shape_size = size(20 + 7 * window, hidden, window)
    rank, query = 3, 20 * ("tokens" in inputs) + 8 * ("hidden" in inputs)
    count = shape_size + (size(20, hidden) if extended else 0) + (rank * (vocab + query + 1) if query else 0)
    detector_flat = (torch.rand(size(20, hidden)) - 0.5).requires_grad_()
    corrector_flat = (0.6 * (torch.rand(count) - 0.5)).requires_grad_()
    request = {
        "vocab": vocab, "top": 60, "steps": steps, "window": window, "hidden": hidden,
        "reference": reference.flatten().tolist(), "quantized": quantized.flatten().tolist(),
        "objective": objective, "temperature": temperature, "positive_weight": 2.5,
        "architecture": "transformer" if dimensions else "mlp" if hidden else "linear", "form": form,
        "inputs": list(inputs), "rank": rank,
        "transformer": dimensions, "lambda_rank": lambda_rank, "lambda_reg": lambda_reg,
        "detector_parameters": detector_flat.tolist(), "corrector_parameters": corrector_flat.tolist(),
    }
    answer = ask(request)
    name = f"{objective} T={temperature} K={window} hidden={hidden} {form} {dimensions or str()} {inputs[1:]}"
    features = torch.tensor(answer["features"]).view(steps, 20)
    labels = torch.tensor(answer["labels"]).double()

    f, _ = network(detector_flat, 20, hidden)
    loss = F.binary_cross_entropy_with_logits(
        f(standardised(features, 0)), labels, reduction="sum", pos_weight=torch.tensor(2.5))
    loss.backward()
    check(f"detector loss, {name}", answer["detector"]["loss"], loss.item())
    check(f"detector gradient, {name}", answer["detector"]["gradient"], detector_flat.grad)

    hidden_states = torch.tensor(answer["hidden"]).view(steps, -1)
    loss = corrector_loss(request, corrector_flat, features, hidden_states, reference, quantized)
    loss.backward()
    check(f"corrector loss, {name}", answer["corrector"]["loss"], loss.item())
    check(f"corrector gradient, {name}", answer["corrector"]["gradient"], corrector_flat.grad)


def check_adamw():
    torch.manual_seed(0)
    weights, biases = torch.randn(40).float(), torch.randn(9).float()
    gradients = [torch.randn(49).float() * 10 ** (i % 5 - 2) for i in range(30)]
    answer = ask({
        "parameters": torch.cat([weights, biases]).tolist(), "decays": [1.0] * 40 + [0.0] * 9,
        "weight_decay": 0.05, "learning_rate": 0.01, "limit": 1.0,
        "gradients": [g.tolist() for g in gradients],
    })
    w, b = weights.clone().requires_grad_(), biases.clone().requires_grad_()
    optimiser = torch.optim.AdamW([{"params": [w]}, {"params": [b], "weight_decay": 0.0}], lr=0.01, weight_decay=0.05)
    for g in gradients:
        w.grad, b.grad = g[:40].clone(), g[40:].clone()
        torch.nn.utils.clip_grad_norm_([w, b], 1.0)
        optimiser.step()
    check("AdamW with clipping, 30 updates", answer["parameters"], torch.cat([w, b]).detach(), 1e-5)


check_gradients("paper", 1.0, 21, [], 0.0, 0.0, 1)
check_gradients("paper", 2.0, 32, [9, 5], 0.1, 1e-2, 2)
check_gradients("extended", 1.0, 21, [9, 5], 0.0, 0.0, 3)
check_gradients("extended", 1.0, 47, [64, 32], 0.1, 1e-4, 4)
check_gradients("extended", 1.0, 16, [], 1.0, 1e-2, 5)
check_gradients("extended", 1.0, 21, [9, 5], 0.1, 1e-2, 6, "candidate", [8, 2, 1, 10])
check_gradients("paper", 1.0, 32, [5], 0.1, 1e-4, 7, "candidate", [12, 3, 2, 16])
check_gradients("extended", 1.0, 21, [9, 5], 0.1, 1e-2, 8, "window")
check_gradients("paper", 2.0, 32, [], 0.1, 1e-4, 9, "window")
check_gradients("extended", 1.0, 21, [9, 5], 0.1, 1e-2, 10, inputs=("logits", "tokens"))
check_gradients("paper", 2.0, 32, [9, 5], 0.1, 1e-2, 11, inputs=("logits", "hidden"))
check_gradients("extended", 1.0, 21, [9, 5], 0.1, 1e-2, 12, "candidate", [8, 2, 1, 10], ("logits", "tokens", "hidden"))
check_adamw()
