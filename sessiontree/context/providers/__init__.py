"""Providers: a context in the shape of a model provider's API.

`anthropic` has Messages, `openai` has Responses and Chat Completions. Pure: messages in, keyword
arguments for the provider's own client out. Messages of any shape are read into parts (`reading`),
then put into turns that alternate, every call answered (`alternate`).

Invariants:

- the same messages give the same bytes;
- the next message of the user's side extends a conversation that ends with an assistant message,
  all calls answered, and changes nothing before it (except after a change of the model: see
  `Thinking` in `reading`);
- no request ends with an answer that broke off;
- content that a provider does not accept is replaced or left out, with a warning.
"""
