//! A model's words: its chat template and its tokenizer, both from the GGUF file.

mod control;
mod template;
mod tokenizer;

use engine::{ChatMessage, Text, TextError};

use crate::LoadError;
use crate::gguf::Header;
use control::Shield;
use template::Template;
use tokenizer::Tokenizer;

pub(crate) struct ModelText {
    template: Template,
    tokenizer: Tokenizer,
}

impl ModelText {
    pub fn load(header: &Header) -> Result<Self, LoadError> {
        let tokenizer = Tokenizer::load(header)?;
        let template = Template::load(header, &tokenizer)?;
        Ok(Self { template, tokenizer })
    }
}

impl Text for ModelText {
    /// The template writes control tokens as text (`<|im_end|>`), and people may write the same text into a message. What
    /// they write is shielded before the template sees it, and unshielded when only plain text is left.
    fn prompt(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, TextError> {
        let shield = Shield::for_messages(messages)?;
        let shielded: Vec<_> = messages
            .iter()
            .map(|message| ChatMessage {
                role: message.role,
                content: shield.cover(&message.content, self.tokenizer.controls()),
            })
            .collect();
        let text = self.template.render(&shielded)?;
        self.tokenizer.tokens(&text, shield)
    }

    fn bytes(&self, token: u32) -> &[u8] {
        self.tokenizer.bytes(token)
    }

    fn is_end(&self, token: u32) -> bool {
        self.tokenizer.is_end(token)
    }
}
