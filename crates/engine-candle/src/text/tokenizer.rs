//! Byte-level BPE, as GGUF files describe it.

use std::collections::HashMap;

use engine::TextError;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use super::control::{Piece, Shield, Spellings};
use crate::LoadError;
use crate::gguf::Header;

/// Texts of control tokens by which models end an answer, besides the one that the file names. Files often name only the
/// end of a document, while chats end at a turn's end.
const END_TEXTS: [&str; 8] =
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>", "<end_of_turn>", "</s>"];

pub(super) struct Tokenizer {
    bpe: tokenizers::Tokenizer,
    /// Found in what the template wrote only.
    controls: Spellings,
    /// Words that merging cannot reach, found everywhere.
    words: Spellings,
    bytes: TokenBytes,
    ends: Vec<u32>,
    bos: Option<u32>,
    add_bos: bool,
    texts: SpecialTexts,
}

/// Texts that chat templates ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct SpecialTexts {
    pub bos: String,
    pub eos: String,
}

impl Tokenizer {
    pub fn load(header: &Header) -> Result<Self, LoadError> {
        match header.text("tokenizer.ggml.model")? {
            "gpt2" => {}
            other => return Err(bad(header, format!("its kind is `{other}`; this engine has `gpt2`, byte-level BPE"))),
        }
        let tokens = header.texts("tokenizer.ggml.tokens")?;
        let kinds = kinds(header, tokens.len())?;
        let of_kind = |wanted: TokenKind| {
            let tokens = (0..).zip(&tokens).zip(&kinds);
            tokens.filter(move |(_, kind)| **kind == wanted).map(|((id, text), _)| ((*text).to_owned(), id))
        };
        let special = |key: &str| -> Result<Option<u32>, LoadError> {
            match header.optional_count(&format!("tokenizer.ggml.{key}_token_id"))? {
                Some(id) if id < tokens.len() => Ok(u32::try_from(id).ok()),
                Some(id) => Err(bad(header, format!("its {key} token {id} is not among its {} tokens", tokens.len()))),
                None => Ok(None),
            }
        };
        let (bos, eos) = (special("bos")?, special("eos")?);
        let mut ends: Vec<u32> = [eos, special("eot")?, special("eom")?].into_iter().flatten().collect();
        ends.extend(
            of_kind(TokenKind::Control).filter(|(text, _)| END_TEXTS.contains(&text.as_str())).map(|(_, id)| id),
        );
        if ends.is_empty() {
            return Err(bad(header, "it names no token that ends an answer".to_owned()));
        }
        let text_of = |id: Option<u32>| id.map_or_else(String::new, |id| tokens[id as usize].to_owned());
        Ok(Self {
            bpe: bpe(header, &tokens)?,
            controls: Spellings::new(of_kind(TokenKind::Control)),
            words: Spellings::new(of_kind(TokenKind::Word)),
            bytes: TokenBytes::of(&tokens, &kinds),
            ends,
            bos,
            add_bos: header.optional_flag("tokenizer.ggml.add_bos_token")?.unwrap_or(false),
            texts: SpecialTexts { bos: text_of(bos), eos: text_of(eos) },
        })
    }

    pub fn controls(&self) -> &Spellings {
        &self.controls
    }

    pub fn texts(&self) -> &SpecialTexts {
        &self.texts
    }

    /// The tokens of a rendered template whose messages are covered by `shield`.
    pub fn tokens(&self, rendered: &str, shield: Shield) -> Result<Vec<u32>, TextError> {
        let mut tokens = Vec::new();
        for piece in self.controls.split(rendered) {
            match piece {
                Piece::Token(token) => tokens.push(token),
                Piece::Plain(plain) => self.plain(&shield.uncover(plain), &mut tokens)?,
            }
        }
        match self.bos {
            Some(bos) if self.add_bos && tokens.first() != Some(&bos) => tokens.insert(0, bos),
            Some(_) | None => {}
        }
        Ok(tokens)
    }

    fn plain(&self, text: &str, tokens: &mut Vec<u32>) -> Result<(), TextError> {
        for piece in self.words.split(text) {
            match piece {
                Piece::Token(token) => tokens.push(token),
                Piece::Plain(plain) => {
                    let encoded = self.bpe.encode_fast(plain, false);
                    let encoded = encoded.map_err(|error| TextError { cause: error.to_string() })?;
                    tokens.extend_from_slice(encoded.get_ids());
                }
            }
        }
        Ok(())
    }

    pub fn bytes(&self, token: u32) -> &[u8] {
        self.bytes.of_token(token)
    }

    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }
}

/// What a token is for; GGUF's `token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    /// Text in BPE's alphabet of bytes.
    Plain,
    /// Not text: marks turns and ends.
    Control,
    /// Text as it is written.
    Word,
}

fn kinds(header: &Header, n_tokens: usize) -> Result<Vec<TokenKind>, LoadError> {
    const KEY: &str = "tokenizer.ggml.token_type";
    if !header.has(KEY) {
        return Ok(vec![TokenKind::Plain; n_tokens]);
    }
    let kinds = header.counts(KEY)?;
    if kinds.len() != n_tokens {
        return Err(bad(header, format!("it has {n_tokens} tokens and kinds for {}", kinds.len())));
    }
    let kind = |kind| match kind {
        1 => Ok(TokenKind::Plain),
        // Unknown, control and unused tokens: none is ever text.
        2 | 3 | 5 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::Word),
        other => Err(bad(header, format!("byte-level BPE has no tokens of kind {other}"))),
    };
    kinds.into_iter().map(kind).collect()
}

fn bpe(header: &Header, tokens: &[&str]) -> Result<tokenizers::Tokenizer, LoadError> {
    let vocab: Vocab = tokens.iter().map(|token| (*token).to_owned()).zip(0..).collect();
    let merges = header.texts("tokenizer.ggml.merges")?.into_iter().map(|merge| match merge.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => Err(bad(header, format!("the merge `{merge}` does not name two tokens"))),
    });
    let split = PreTokenizer::named(header)?;
    let model = BPE::builder()
        .vocab_and_merges(vocab, merges.collect::<Result<_, _>>()?)
        .ignore_merges(split.prefers_whole_words())
        .build()
        .map_err(|error| bad(header, error.to_string()))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    split.set_up(&mut tokenizer).map_err(|error| bad(header, error.to_string()))?;
    Ok(tokenizer)
}

/// How text is cut into words before merging; GGUF's `tokenizer.ggml.pre`. A wrong one gives other tokens than the model
/// was trained on, without any error: so an unknown one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreTokenizer {
    Gpt2,
    Llama3,
    Qwen2,
    /// As GPT-2, with every digit by itself.
    SmolLm,
}

impl PreTokenizer {
    const KNOWN: [(&'static str, Self); 7] = [
        ("gpt-2", Self::Gpt2),
        ("llama-bpe", Self::Llama3),
        ("llama3", Self::Llama3),
        ("llama-v3", Self::Llama3),
        ("smaug-bpe", Self::Llama3),
        ("qwen2", Self::Qwen2),
        ("smollm", Self::SmolLm),
    ];

    fn named(header: &Header) -> Result<Self, LoadError> {
        let name = header.text("tokenizer.ggml.pre")?;
        let known = Self::KNOWN.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, split)| split).ok_or_else(|| {
            let known = Self::KNOWN.map(|(known, _)| format!("`{known}`")).join(", ");
            bad(header, format!("it cuts words by `{name}`; this engine knows {known}"))
        })
    }

    /// Llama 3 takes a word that is a token as it is, even if merging would not reach it.
    fn prefers_whole_words(self) -> bool {
        match self {
            Self::Llama3 => true,
            Self::Gpt2 | Self::Qwen2 | Self::SmolLm => false,
        }
    }

    fn set_up(self, tokenizer: &mut tokenizers::Tokenizer) -> tokenizers::Result<()> {
        // No space before the text, and offsets are not asked for.
        let bytes_and_words = PreTokenizerWrapper::from(ByteLevel::new(false, true, true));
        let bytes_only = PreTokenizerWrapper::from(ByteLevel::new(false, true, false));
        let by = |pattern: &str| {
            let pattern = SplitPattern::Regex(pattern.to_owned());
            Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map(PreTokenizerWrapper::from)
        };
        match self {
            Self::Gpt2 => tokenizer.with_pre_tokenizer(Some(bytes_and_words)),
            Self::SmolLm => {
                tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![Digits::new(true).into(), bytes_and_words])))
            }
            Self::Llama3 => tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![by(LLAMA_3_WORDS)?, bytes_only]))),
            Self::Qwen2 => {
                tokenizer.with_normalizer(Some(NFC))?;
                tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![by(QWEN_2_WORDS)?, bytes_only])))
            }
        };
        Ok(())
    }
}

const LLAMA_3_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2_WORDS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The bytes of every token, one after the other.
struct TokenBytes {
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<usize>,
}

impl TokenBytes {
    fn of(tokens: &[&str], kinds: &[TokenKind]) -> Self {
        let byte_of = byte_alphabet();
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(tokens.len()));
        for (token, kind) in tokens.iter().zip(kinds) {
            match kind {
                // A letter outside the alphabet cannot be merged to, and stands for nothing.
                TokenKind::Plain => bytes.extend(token.chars().filter_map(|letter| byte_of.get(&letter))),
                TokenKind::Word => bytes.extend_from_slice(token.as_bytes()),
                TokenKind::Control => {}
            }
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    fn of_token(&self, token: u32) -> &[u8] {
        let Some(&end) = self.ends.get(token as usize) else { return &[] };
        let start = (token as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..end]
    }
}

/// GPT-2's letters for bytes: printable ones stand for themselves, the others follow from U+0100.
fn byte_alphabet() -> HashMap<char, u8> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let printable = (0..=255).filter(|&byte| is_printable(byte)).map(|byte| (char::from(byte), byte));
    let others = ('\u{100}'..).zip((0..=255).filter(|&byte| !is_printable(byte)));
    printable.chain(others).collect()
}

fn bad(header: &Header, problem: String) -> LoadError {
    LoadError::Tokenizer { path: header.path.clone(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_of_bytes_is_gpt_2s() {
        let byte_of = byte_alphabet();
        assert_eq!(byte_of.len(), 256);
        for (letter, byte) in [('A', b'A'), ('Ġ', b' '), ('Ċ', b'\n'), ('Ã', 0xc3), ('ł', 0xa0), ('Ń', 0xad)] {
            assert_eq!(byte_of.get(&letter), Some(&byte), "{letter}");
        }
    }

    #[test]
    fn control_tokens_are_no_text() {
        let bytes = TokenBytes::of(&["Ġa", "<|end|>", "<b>"], &[TokenKind::Plain, TokenKind::Control, TokenKind::Word]);
        assert_eq!([0, 1, 2, 3].map(|token| bytes.of_token(token)), [&b" a"[..], b"", b"<b>", b""]);
    }
}
