"""The seven stages of the method, in running order (spec §1).

1. `generate`    question → answer, streamed
2. `decompose`   answer → atomic claims, each tied to its sentence
3. `recall`      question → reference, in a fresh context that never sees the answer; runs beside `generate`
4. `entail`      (reference, claim) pairs → three probabilities per claim
5. `decide`      signed scores → threshold → one verdict per claim
6. `correct`     contradicted claims + reference → rewritten sentences, checked before they are accepted
7. `reassemble`  answer + accepted edits → final answer

`context` and `coverage` belong to `decompose`: what stands above a sentence; whether a model's claims say all of it.

Stages receive the ports (`corrigenda.ports`) as arguments and import no backend.
"""
