"""Uses the API as a program with OpenAI's Python client does. Arguments: base URL, model. Fails by an assertion."""

import sys

from openai import APIError, APIStatusError, BadRequestError, NotFoundError, OpenAI

base_url, model = sys.argv[1:]
# No retries: each failure is looked at once.
client = OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=20)


def ask(prompt, **extra):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}], **extra)


assert [card.id for card in client.models.list()] == [model]
assert client.models.retrieve(model).owned_by == "macrame"

answer = ask("Name three primary colours.", temperature=0, max_tokens=16, seed=7, stop=["\n\n"])
assert answer.choices[0].message.content == "Red, yellow, blue.", answer
assert answer.choices[0].finish_reason == "stop"
assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens == 13
assert answer.timings["tokens_per_sec"] > 0

again = [
    {"role": "user", "content": [{"type": "text", "text": "Name three."}]},
    answer.choices[0].message.model_dump(),
    {"role": "user", "content": "Again."},
]
assert client.chat.completions.create(model=model, messages=again).choices[0].message.role == "assistant"

text, last = "", None
for chunk in ask("Name three primary colours.", stream=True, stream_options={"include_usage": True}):
    text += "".join(choice.delta.content or "" for choice in chunk.choices)
    last = chunk
assert text == "Red, yellow, blue.", text
assert last.usage.completion_tokens == 4 and last.choices == []

answer = ask("Name three primary colours.", logprobs=True, top_logprobs=2)
first = answer.choices[0].logprobs.content[0]
assert (first.token, first.logprob, first.bytes) == ("Red,", -0.25, list(b"Red,")), first
assert [top.token for top in first.top_logprobs] == ["Red,", " no"]

try:
    client.chat.completions.create(model="org/none", messages=[{"role": "user", "content": "hello"}])
    raise AssertionError("a model that is not served answered")
except NotFoundError as error:
    assert (error.code, error.param) == ("model_not_found", "model"), error

try:
    ask("hello", tools=[{"type": "function", "function": {"name": "f"}}])
    raise AssertionError("tools were ignored")
except BadRequestError as error:
    assert (error.code, error.param) == ("unsupported_parameter", "tools"), error

try:
    ask("fail midway")
    raise AssertionError("a cut text passed for an answer")
except APIStatusError as error:
    assert (error.status_code, error.code) == (502, "rank_lost"), error

text = ""
try:
    for chunk in ask("fail midway", stream=True):
        text += chunk.choices[0].delta.content or ""
    raise AssertionError("a cut stream passed for an answer")
except APIError as error:
    assert text == "Red," and "mini" in error.message, error

with ask("never end", stream=True) as stream:
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
print("done")
