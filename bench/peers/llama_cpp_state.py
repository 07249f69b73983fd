"""A llama.cpp sequence state with its cells repeated: long caches without the prefill that would fill them."""
import struct


def repeated(state, cells):
    """`state` (llama_state_seq_get_data, one stream, values not transposed) with its cells again and again, `cells` in
    all, at positions 0, 1, 2, ..."""
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, state, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    magic, owner, streams, count = take("IiII")
    if streams != 1 or cells < count:
        raise SystemExit("llama.cpp: a state of one stream, and no more cells than are wanted")
    out = [struct.pack("<IiII", magic, owner, 1, cells)]
    for _ in range(count):
        _, sequences = take("iI")
        if sequences != 1:
            raise SystemExit("llama.cpp: a cell of several sequences")
        sequence = take("i")
    out += [struct.pack("<iIi", position, 1, sequence) for position in range(cells)]
    transposed, layers = take("II")
    if transposed:
        raise SystemExit("llama.cpp: transposed values; flash attention has them in rows")
    out.append(struct.pack("<II", 0, layers))
    for _ in range(2 * layers):  # keys of all layers, then values
        kind, row = take("iQ")
        rows = state[at : at + count * row]
        at += count * row
        out += [struct.pack("<iQ", kind, row), (rows * -(-cells // count))[: cells * row]]
    if at != len(state):
        raise SystemExit("llama.cpp: another layout of states than this was written for")
    return b"".join(out)
