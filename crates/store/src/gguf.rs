//! Which files of a repository are models, and which of them to take when nobody chose.

use std::collections::BTreeMap;

use crate::names::RepoFile;

/// One model of a repository: a GGUF file, or all the parts of one, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GgufModel {
    pub parts: Vec<RepoFile>,
}

impl GgufModel {
    /// The name it goes by: its first file's.
    pub fn name(&self) -> &str {
        self.parts[0].as_str()
    }
}

/// The models among `files`, by name. Parts (`…-00001-of-00003.gguf`) count only when all are there.
pub(crate) fn models(files: impl IntoIterator<Item = RepoFile>) -> Vec<GgufModel> {
    let mut whole = Vec::new();
    let mut split: BTreeMap<(String, u32), BTreeMap<u32, RepoFile>> = BTreeMap::new();
    for file in files.into_iter().filter(|file| is_model(file.file_name())) {
        match part_of(file.as_str()) {
            None => whole.push(GgufModel { parts: vec![file] }),
            Some(part) => {
                split.entry((part.base.to_owned(), part.n_parts)).or_default().insert(part.number, file);
            }
        }
    }
    let complete = split.into_iter().filter(|((_, n_parts), parts)| {
        let numbers = parts.keys().copied();
        numbers.eq(1..=*n_parts)
    });
    whole.extend(complete.map(|(_, parts)| GgufModel { parts: parts.into_values().collect() }));
    whole.sort_by(|a, b| a.name().cmp(b.name()));
    whole
}

/// The model to take when only the repository was named: the first that [`QUANTISATIONS_PREFERRED`] lists, else the
/// first by name.
pub(crate) fn preferred(models: &[GgufModel]) -> Option<&GgufModel> {
    models.iter().min_by_key(|model| (quantisation_rank(model.name()), model.name()))
}

/// Best first. Q4_K_M leads as the usual balance of size and quality; then other 4-bit kinds; then more bits, which
/// cost memory; then fewer, which cost sense; unquantised last, as nobody who wanted those leaves it to us.
const QUANTISATIONS_PREFERRED: [&str; 24] = [
    "Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "IQ4_NL", "IQ4_XS", "Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0",
    "Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_S", "Q2_K", "IQ2_M", "Q4_K", "BF16", "F16", "F32", "FP16",
];

fn quantisation_rank(name: &str) -> usize {
    let name = name.to_ascii_uppercase();
    let named = |kind: &str| {
        name.match_indices(kind).any(|(start, _)| {
            let before = name[..start].chars().next_back();
            let after = name[start + kind.len()..].chars().next();
            let inside_word = |c: char| c.is_ascii_alphanumeric();
            !before.is_some_and(inside_word) && !after.is_some_and(|c| inside_word(c) || c == '_')
        })
    };
    QUANTISATIONS_PREFERRED.iter().position(|kind| named(kind)).unwrap_or(QUANTISATIONS_PREFERRED.len())
}

/// A GGUF file that holds a language model, not what goes beside one: the eyes of a multimodal model, or the
/// statistics by which it was quantised.
fn is_model(file_name: &str) -> bool {
    let name = file_name.to_ascii_lowercase();
    name.ends_with(".gguf") && !name.starts_with("mmproj") && !name.contains("imatrix")
}

/// One of the files that a large model was cut into.
struct Part<'a> {
    base: &'a str,
    number: u32,
    n_parts: u32,
}

/// Reads `base-00001-of-00003.gguf`.
fn part_of(path: &str) -> Option<Part<'_>> {
    let stem = path.get(..path.len().checked_sub(".gguf".len())?)?;
    let (rest, n_parts) = stem.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let five_digits = |text: &str| (text.len() == 5).then(|| text.parse().ok()).flatten();
    Some(Part { base, number: five_digits(number)?, n_parts: five_digits(n_parts)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> Vec<GgufModel> {
        models(files.iter().map(|file| file.parse().expect("a file")))
    }

    fn chosen(files: &[&str]) -> Option<String> {
        preferred(&found(files)).map(|model| model.name().to_owned())
    }

    #[test]
    fn parts_are_one_model_and_only_when_complete() {
        let files = ["q8/m-00002-of-00002.gguf", "q8/m-00001-of-00002.gguf", "q4/m-00001-of-00002.gguf", "m-Q4_0.gguf"];
        let models = found(&files);
        assert_eq!(models.iter().map(GgufModel::name).collect::<Vec<_>>(), ["m-Q4_0.gguf", "q8/m-00001-of-00002.gguf"]);
        assert_eq!(models[1].parts[1].as_str(), "q8/m-00002-of-00002.gguf");
    }

    #[test]
    fn what_is_no_language_model_is_passed_over() {
        assert!(found(&["mmproj-F16.gguf", "m.imatrix.gguf", "README.md", "model.safetensors", "gguf"]).is_empty());
    }

    #[test]
    fn the_usual_balance_is_taken_when_nobody_chose() {
        assert_eq!(chosen(&["m-Q8_0.gguf", "m-Q4_0.gguf", "m.q4_k_m.gguf"]).as_deref(), Some("m.q4_k_m.gguf"));
        assert_eq!(chosen(&["m-f16.gguf", "m-Q8_0.gguf"]).as_deref(), Some("m-Q8_0.gguf"));
        assert_eq!(chosen(&["m-Q4_0_4_4.gguf", "m-Q4_1.gguf"]).as_deref(), Some("m-Q4_1.gguf"), "another kind's name");
        assert_eq!(chosen(&["b.gguf", "a.gguf"]).as_deref(), Some("a.gguf"));
        assert_eq!(chosen(&[]), None);
    }
}
