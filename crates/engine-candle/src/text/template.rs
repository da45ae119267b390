//! The model's chat template: Jinja, as the file carries it.

use engine::{ChatMessage, TextError};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};

use super::tokenizer::{SpecialTexts, Tokenizer};
use crate::LoadError;
use crate::gguf::Header;

const NAME: &str = "chat";

/// Steps a template may take: a chat of thousands of messages needs some hundred thousand; a template that loops for ever
/// ends after about a second.
const FUEL: u64 = 10_000_000;

pub(super) struct Template {
    environment: Environment<'static>,
    texts: SpecialTexts,
}

impl Template {
    pub fn load(header: &Header, tokenizer: &Tokenizer) -> Result<Self, LoadError> {
        let bad = |problem: String| LoadError::Template { path: header.path.clone(), problem };
        let Some(source) = header.optional_text("tokenizer.chat_template")? else {
            return Err(bad("the file has none".to_owned()));
        };
        Self::parse(source, tokenizer.texts().clone()).map_err(|error| bad(format!("{error:#}")))
    }

    fn parse(source: &str, texts: SpecialTexts) -> Result<Self, Error> {
        let mut environment = Environment::new();
        // As Hugging Face's libraries render chat templates.
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, reason))
        });
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Self { environment, texts })
    }

    /// The messages in the model's format, up to where its answer begins.
    pub fn render(&self, messages: &[ChatMessage]) -> Result<String, TextError> {
        let message =
            |message: &ChatMessage| context! { role => message.role.as_str(), content => message.content.as_str() };
        let context = context! {
            messages => messages.iter().map(message).collect::<Vec<Value>>(),
            add_generation_prompt => true,
            bos_token => self.texts.bos.as_str(),
            eos_token => self.texts.eos.as_str(),
        };
        let rendered = self.environment.get_template(NAME).and_then(|template| template.render(context));
        rendered.map_err(|error| TextError { cause: error.detail().map_or_else(|| error.to_string(), str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Role;

    #[test]
    fn templates_render_as_hugging_face_does() {
        let source = "{% for m in messages %}\n    {% if m['content'].startswith('x') %}\n{{ m.role | upper }}: {{ m.content.strip() }}\n    {% endif %}\n{% endfor %}\n{%- if add_generation_prompt %}<a>{% endif %}";
        assert_eq!(render(source, &["xa ", "b"]), Ok("USER: xa\n<a>".to_owned()));
        assert_eq!(render("{{ bos_token }}{{ eos_token }}", &[]), Ok("<s></s>".to_owned()));
        assert_eq!(render("{{ messages[0] | tojson }}", &["a\"<"]).map(|json| json.contains("\"role\"")), Ok(true));
    }

    #[test]
    fn what_a_template_says_against_messages_is_passed_on() {
        let source = "{% if messages | length != 1 %}{{ raise_exception('one message at a time') }}{% endif %}";
        assert_eq!(render(source, &["a", "b"]), Err("one message at a time".to_owned()));
    }

    #[test]
    fn a_template_that_never_ends_is_ended() {
        let source =
            "{% for a in range(10000) %}{% for b in range(10000) %}{% set x = a * b %}{% endfor %}{% endfor %}";
        assert!(render(source, &[]).is_err());
    }

    fn render(source: &str, contents: &[&str]) -> Result<String, String> {
        let texts = SpecialTexts { bos: "<s>".to_owned(), eos: "</s>".to_owned() };
        let template = Template::parse(source, texts).map_err(|error| error.to_string())?;
        let message = |content: &&str| ChatMessage { role: Role::User, content: (*content).to_owned() };
        let messages: Vec<_> = contents.iter().map(message).collect();
        template.render(&messages).map_err(|error| error.cause)
    }
}
