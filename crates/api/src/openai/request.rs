//! Reads a chat request: every field is honoured, known to change nothing, or refused.

use domain::TokenCount;
use node::engine::{ChatMessage, GenerationRequest, Role, Sampling};
use serde_json::{Value, json};

use super::fields::Fields;
use crate::problem::Problem;

/// OpenAI's limit; clients that keep to it lose nothing.
const STOP_MAX: usize = 4;

/// A request that can be run as it is.
#[derive(Debug, PartialEq)]
pub struct ChatRequest {
    pub model: String,
    pub generation: GenerationRequest,
    pub delivery: Delivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// One body when the answer is done.
    Whole,
    /// Events as the answer grows.
    Stream(UsageChunk),
}

/// Whether a stream ends with a chunk that counts its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageChunk {
    Send,
    Omit,
}

impl ChatRequest {
    pub fn parse(body: Value) -> Result<Self, Problem> {
        let mut fields = Fields::of("", body)?;
        let model = fields.required("model", "the name of a model, as text")?;
        let messages: Vec<Value> = fields.required("messages", "an array of messages")?;
        let generation = GenerationRequest {
            messages: messages
                .into_iter()
                .enumerate()
                .map(|(idx, value)| message(idx, value))
                .collect::<Result<_, _>>()?,
            sampling: sampling(&mut fields)?,
            max_tokens: max_tokens(&mut fields)?,
            stop: stop(&mut fields)?,
            top_logprobs: top_logprobs(&mut fields)?,
        };
        let delivery = delivery(&mut fields)?;
        refuse_the_rest(fields)?;
        generation.check().map_err(|bad| {
            let message = bad.to_string();
            Problem::bad_request("invalid_value", bad.field, message)
        })?;
        Ok(Self { model, generation, delivery })
    }
}

fn message(idx: usize, value: Value) -> Result<ChatMessage, Problem> {
    let mut fields = Fields::of(format!("messages[{idx}]."), value)?;
    let role: String = fields.required("role", "`system`, `user` or `assistant`")?;
    let role = match role.as_str() {
        // OpenAI's newer word for the same.
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => return Err(Problem::unsupported(fields.name("role"), "tools are not")),
        _ => {
            let message = "a message's role is `system`, `user` or `assistant`";
            return Err(Problem::bad_request("invalid_value", fields.name("role"), message));
        }
    };
    let content = content(&mut fields)?;
    // Clients send answers back as they got them; an empty list there says nothing.
    fields.only("tool_calls", &[json!([])], "tools are not")?;
    fields.only("annotations", &[json!([])], "web search is not")?;
    fields.finish()?;
    Ok(ChatMessage { role, content })
}

/// A text, or parts of which all are text.
fn content(fields: &mut Fields) -> Result<String, Problem> {
    let expected = "text or an array of text parts";
    let parts = match fields.required("content", expected)? {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            let name = fields.name("content");
            let message = format!("`{name}` must be {expected}");
            return Err(Problem::bad_request("invalid_type", name, message));
        }
    };
    let mut content = String::new();
    for (idx, part) in parts.into_iter().enumerate() {
        let mut part = Fields::of(format!("{}[{idx}].", fields.name("content")), part)?;
        let kind: String = part.required("type", "`text`")?;
        if kind != "text" {
            return Err(Problem::unsupported(part.name("type"), "parts of a message can only be text"));
        }
        content += &part.required::<String>("text", "text")?;
        part.finish()?;
    }
    Ok(content)
}

fn sampling(fields: &mut Fields) -> Result<Sampling, Problem> {
    let usual = Sampling::USUAL;
    let mut number = |field: &str, default: f32| -> Result<f32, Problem> {
        Ok(fields.optional(field, "a number")?.unwrap_or(default))
    };
    Ok(Sampling {
        temperature: number("temperature", usual.temperature)?,
        top_p: number("top_p", usual.top_p)?,
        min_p: number("min_p", usual.min_p)?,
        repeat_penalty: number("repeat_penalty", usual.repeat_penalty)?,
        presence_penalty: number("presence_penalty", usual.presence_penalty)?,
        frequency_penalty: number("frequency_penalty", usual.frequency_penalty)?,
        repeat_last_n: usual.repeat_last_n,
        // llama.cpp's way to say all.
        top_k: fields.optional("top_k", "a whole number")?.or(usual.top_k).filter(|&top_k| top_k > 0),
        seed: seed(fields)?,
    })
}

/// OpenAI's seed is signed; each has its own unsigned one.
fn seed(fields: &mut Fields) -> Result<Option<u64>, Problem> {
    Ok(fields.optional::<i64>("seed", "a whole number")?.map(i64::cast_unsigned))
}

/// `max_tokens` is the old name of `max_completion_tokens`.
fn max_tokens(fields: &mut Fields) -> Result<Option<TokenCount>, Problem> {
    let old: Option<u32> = fields.optional("max_tokens", "a whole number")?;
    let new: Option<u32> = fields.optional("max_completion_tokens", "a whole number")?;
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            let message = "`max_tokens` and `max_completion_tokens` differ; send one";
            Err(Problem::bad_request("invalid_value", "max_tokens", message))
        }
        (old, new) => Ok(new.or(old).map(TokenCount)),
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, Problem> {
    let expected = format!("a text or an array of at most {STOP_MAX} texts");
    let stop = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => vec![text],
        Some(texts) => serde_json::from_value(texts).unwrap_or_else(|_| vec![String::new(); STOP_MAX + 1]),
    };
    if stop.len() > STOP_MAX {
        return Err(Problem::bad_request("invalid_value", "stop", format!("`stop` must be {expected}")));
    }
    Ok(stop)
}

fn top_logprobs(fields: &mut Fields) -> Result<Option<u8>, Problem> {
    let wanted: Option<bool> = fields.optional("logprobs", "true or false")?;
    let top: Option<u8> = fields.optional("top_logprobs", "a whole number from 0 to 20")?;
    match (wanted.unwrap_or(false), top) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None) => Ok(None),
        (false, Some(_)) => {
            let message = "`top_logprobs` needs `logprobs` to be true";
            Err(Problem::bad_request("invalid_value", "top_logprobs", message))
        }
    }
}

fn delivery(fields: &mut Fields) -> Result<Delivery, Problem> {
    let stream: Option<bool> = fields.optional("stream", "true or false")?;
    let options = fields.take("stream_options");
    if !stream.unwrap_or(false) {
        return match options {
            None => Ok(Delivery::Whole),
            Some(_) => {
                let message = "`stream_options` needs `stream` to be true";
                Err(Problem::bad_request("invalid_value", "stream_options", message))
            }
        };
    }
    let Some(options) = options else { return Ok(Delivery::Stream(UsageChunk::Omit)) };
    let mut options = Fields::of("stream_options.", options)?;
    let include_usage: Option<bool> = options.optional("include_usage", "true or false")?;
    options.only("include_obfuscation", &[json!(false)], "chunks are not padded")?;
    options.finish()?;
    Ok(Delivery::Stream(if include_usage.unwrap_or(false) { UsageChunk::Send } else { UsageChunk::Omit }))
}

fn refuse_the_rest(mut fields: Fields) -> Result<(), Problem> {
    // Who asks, and what for: nothing about the answer.
    for field in ["user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"] {
        fields.irrelevant(field);
    }
    fields.only("n", &[json!(1)], "one answer is made for each request")?;
    fields.only("response_format", &[json!({"type": "text"})], "answers are plain text")?;
    fields.only("modalities", &[json!(["text"])], "answers are plain text")?;
    fields.only("store", &[json!(false)], "answers are not kept on the server")?;
    fields.only("service_tier", &[json!("auto"), json!("default")], "there is one tier")?;
    fields.only("logit_bias", &[json!({})], "token scores cannot be biased")?;
    for (field, why) in UNSUPPORTED {
        fields.only(field, &[], why)?;
    }
    fields.finish()
}

/// Fields of OpenAI's and other servers' APIs that change the answer and are not honoured.
const UNSUPPORTED: [(&str, &str); 17] = [
    ("tools", "tools are not"),
    ("tool_choice", "tools are not"),
    ("parallel_tool_calls", "tools are not"),
    ("functions", "tools are not"),
    ("function_call", "tools are not"),
    ("web_search_options", "web search is not"),
    ("audio", "answers are plain text"),
    ("prediction", "predicted outputs are not"),
    ("reasoning_effort", "reasoning cannot be steered"),
    ("verbosity", "verbosity cannot be steered; say it in the prompt"),
    ("moderation", "moderation is not"),
    ("chat_template_kwargs", "the model's chat template takes no arguments"),
    ("grammar", "answers are plain text"),
    ("guided_json", "answers are plain text"),
    ("keep_alive", "a deployment serves until it is stopped"),
    ("typical_p", "use `top_p` or `min_p`"),
    ("mirostat", "use `top_p` or `min_p`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: Value) -> Result<ChatRequest, Problem> {
        let mut body = json!({"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}]});
        let (Value::Object(body_fields), Value::Object(extra)) = (&mut body, extra) else { unreachable!("objects") };
        body_fields.extend(extra);
        ChatRequest::parse(body)
    }

    #[test]
    fn a_plain_request_takes_the_models_own_odds() {
        let request = parse(json!({})).expect("a good request");
        assert_eq!(request.model, "org/tiny");
        assert_eq!(request.delivery, Delivery::Whole);
        assert_eq!(request.generation.sampling, Sampling::USUAL);
        assert_eq!(request.generation.messages, [ChatMessage { role: Role::User, content: "hello".to_owned() }]);
    }

    #[test]
    fn every_field_that_is_honoured_arrives() {
        let request = parse(json!({
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "ho", "refusal": null, "tool_calls": [], "audio": null},
                {"role": "user", "content": "again"},
            ],
            "temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1, "seed": -1,
            "presence_penalty": 0.5, "frequency_penalty": -0.5, "max_completion_tokens": 7, "stop": "END",
            "logprobs": true, "top_logprobs": 3, "stream": true, "stream_options": {"include_usage": true},
            "user": "someone", "metadata": {"a": "b"}, "n": 1, "response_format": {"type": "text"}, "tools": null,
        }))
        .expect("a good request");
        assert_eq!(request.delivery, Delivery::Stream(UsageChunk::Send));
        let roles: Vec<_> = request.generation.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
        assert_eq!(request.generation.messages[0].content, "be brief");
        assert_eq!(request.generation.max_tokens, Some(TokenCount(7)));
        assert_eq!(request.generation.stop, ["END"]);
        assert_eq!(request.generation.top_logprobs, Some(3));
        let expected = Sampling {
            temperature: 0.0,
            top_p: 0.9,
            top_k: Some(40),
            min_p: 0.05,
            repeat_penalty: 1.1,
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            seed: Some(u64::MAX),
            ..Sampling::MODEL
        };
        assert_eq!(request.generation.sampling, expected);
    }

    #[test]
    fn what_is_not_honoured_is_refused_by_name() {
        let refused = [
            (json!({"tools": []}), "tools"),
            (json!({"tool_choice": "auto"}), "tool_choice"),
            (json!({"n": 2}), "n"),
            (json!({"response_format": {"type": "json_object"}}), "response_format"),
            (json!({"logit_bias": {"50256": -100}}), "logit_bias"),
            (json!({"reasoning_effort": "high"}), "reasoning_effort"),
            (json!({"store": true}), "store"),
            (json!({"service_tier": "flex"}), "service_tier"),
            (json!({"modalities": ["text", "audio"]}), "modalities"),
            (json!({"no_such_field": 1}), "no_such_field"),
            (json!({"stream": true, "stream_options": {"chunk": 1}}), "stream_options.chunk"),
            (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].role"),
            (json!({"messages": [{"role": "user", "content": "x", "name": "joe"}]}), "messages[0].name"),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}]}),
                "messages[0].content[0].type",
            ),
        ];
        for (extra, param) in refused {
            let problem = parse(extra).expect_err(param);
            assert_eq!((problem.code.as_ref(), problem.param.as_deref()), ("unsupported_parameter", Some(param)));
            assert!(problem.message.contains(param), "{}", problem.message);
        }
        for (field, _) in UNSUPPORTED {
            let problem = parse(json!({field: 1})).expect_err(field);
            assert_eq!(problem.param.as_deref(), Some(field));
        }
    }

    #[test]
    fn a_bad_value_is_named_with_what_it_should_be() {
        let bad = [
            (json!({"model": null}), "model"),
            (json!({"model": 7}), "model"),
            (json!({"messages": []}), "messages"),
            (json!({"messages": ["hi"]}), "messages[0]"),
            (json!({"messages": [{"role": "king", "content": "x"}]}), "messages[0].role"),
            (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"temperature": 2.5}), "temperature"),
            (json!({"top_p": 0}), "top_p"),
            (json!({"min_p": 1.5}), "min_p"),
            (json!({"seed": 1.5}), "seed"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_tokens": -1}), "max_tokens"),
            (json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
            (json!({"stop": 7}), "stop"),
            (json!({"stop": ""}), "stop's bytes"),
            (json!({"top_logprobs": 2}), "top_logprobs"),
            (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
            (json!({"stream_options": {"include_usage": true}}), "stream_options"),
            (json!({"stream": "yes"}), "stream"),
        ];
        for (extra, param) in bad {
            let problem = parse(extra.clone()).expect_err(param);
            assert_eq!(problem.param.as_deref(), Some(param), "{extra}");
        }
        assert!(ChatRequest::parse(json!([])).is_err());
    }
}
