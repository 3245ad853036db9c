"""Providers: a context in the shape that a model provider's API takes.

One module a shape: `anthropic` (Messages), `responses` and `chat` (OpenAI). Pure as the rest of the
core: messages in, keyword arguments for the provider's own client out. Messages of any shape are
first read into parts (`reading`), then put into turns that alternate, every call answered
(`turns`).

What holds for all three:

- the same messages give the same bytes;
- a conversation that ends with an assistant message, all calls answered, is extended and otherwise
  left as it is by whatever the user's side says next (a change of the model apart: see `Thinking`
  in `part`);
- what a provider cannot take is said in another way or left out, and named in the warnings either
  way.
"""
