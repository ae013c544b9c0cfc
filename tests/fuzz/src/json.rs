//! Mutation of JSON as a tree. Mutated bytes are rarely JSON, so they would mostly fuzz the JSON parser.

use fastrand::Rng;
use serde_json::{Value, json};

/// Mutates a line of an input as JSON if it is JSON, and otherwise the whole input as bytes. `is_json` selects the JSON lines.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    words: &[String],
    is_json: impl Fn(usize) -> bool,
) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    if let Some(changed) =
        mutated(&data[..size], &mut rng, words, is_json).filter(|changed| changed.len() <= max_size)
    {
        data[..changed.len()].copy_from_slice(&changed);
        return changed.len();
    }
    libfuzzer_sys::fuzzer_mutate(data, size, max_size)
}

/// Returns the changed input; `None` if it should be mutated as bytes.
fn mutated(
    data: &[u8],
    rng: &mut Rng,
    words: &[String],
    is_json: impl Fn(usize) -> bool,
) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data)
        .ok()
        .filter(|_| rng.u8(..) >= 32)?;
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let places: Vec<usize> = (0..lines.len()).filter(|line| is_json(*line)).collect();
    let place = *rng.choice(&places)?;
    let mut value: Value = serde_json::from_str(&lines[place]).ok()?;
    for _ in 0..=rng.usize(..3) {
        change(&mut value, rng, words);
    }
    lines[place] = value.to_string();
    match rng.u8(..) {
        // Duplicates or removes a line: for inputs that are sequences.
        0..24 if is_json(lines.len()) => lines.push(lines[place].clone()),
        24..40 if places.len() > 1 => drop(lines.remove(place)),
        40..56 if places.len() > 1 => lines.swap(place, *rng.choice(&places)?),
        _ => {}
    }
    Some(lines.join("\n").into_bytes())
}

/// Changes one node, chosen by a walk from the root.
fn change(value: &mut Value, rng: &mut Rng, words: &[String]) {
    let stops = rng.u8(..4) == 0;
    match value {
        Value::Object(fields) if !stops && !fields.is_empty() => {
            let name = rng.choice(fields.keys()).unwrap().clone();
            match rng.u8(..16) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(word(rng, words), any(rng, words))),
                2 => {
                    let moved = fields.remove(&name).unwrap();
                    fields.insert(word(rng, words), moved);
                }
                _ => change(&mut fields[&name], rng, words),
            }
        }
        Value::Array(items) if !stops && !items.is_empty() => {
            let at = rng.usize(..items.len());
            match rng.u8(..8) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => change(&mut items[at], rng, words),
            }
        }
        Value::Object(fields) if rng.bool() => {
            drop(fields.insert(word(rng, words), any(rng, words)))
        }
        Value::Array(items) if rng.bool() => items.push(any(rng, words)),
        Value::String(text) if rng.u8(..4) > 0 => *text = change_text(text, rng, words),
        Value::Number(number) if rng.bool() => {
            let number = number.as_i64().unwrap_or(0);
            *value = json!(
                number
                    .wrapping_add(rng.i64(-3..=3))
                    .wrapping_mul(rng.i64(-1..=2))
            );
        }
        _ => *value = any(rng, words),
    }
}

/// Returns a word of the API, or occasionally another text.
fn word(rng: &mut Rng, words: &[String]) -> String {
    rng.choice(words)
        .filter(|_| rng.u8(..8) > 0)
        .map_or_else(|| "x".into(), Clone::clone)
}

fn any(rng: &mut Rng, words: &[String]) -> Value {
    const NUMBERS: [f64; 6] = [
        0.5,
        -0.0,
        1e300,
        1e-300,
        9_007_199_254_740_993.0,
        4_294_967_296.0,
    ];
    const INTEGERS: [i64; 12] = [
        0,
        1,
        -1,
        59,
        60,
        200,
        86_400,
        86_401,
        i32::MAX as i64,
        u32::MAX as i64,
        i64::MAX,
        i64::MIN,
    ];
    match rng.u8(..12) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.choice(NUMBERS)),
        3 => json!(rng.choice(INTEGERS)),
        4 => json!(u64::MAX),
        5 => json!([]),
        6 => json!({}),
        7 => json!({ word(rng, words): any(rng, words) }),
        8 => json!([any(rng, words), any(rng, words)]),
        9 => json!(change_text("", rng, words)),
        _ => json!(word(rng, words)),
    }
}

fn change_text(text: &str, rng: &mut Rng, words: &[String]) -> String {
    const PARTS: [&str; 20] = [
        "", "\0", "\n", "\u{7f}", "\u{80}", "\u{202e}", "ü", "💥", "%00", "%2e%2e", "..", "/",
        "\\", ".", "-", "_", "@", " ", "a", "REDACTED",
    ];
    let mut characters: Vec<char> = text.chars().collect();
    let at = rng.usize(..=characters.len());
    match rng.u8(..6) {
        0 => return word(rng, words),
        1 if at < characters.len() => drop(characters.remove(at)),
        2 => {
            let longer: Vec<char> = characters
                .iter()
                .copied()
                .cycle()
                .take(characters.len() * rng.usize(1..40))
                .collect();
            characters = longer;
        }
        3 => characters.truncate(at),
        _ => drop(characters.splice(at..at, rng.choice(PARTS).unwrap().chars())),
    }
    characters.into_iter().take(5_000).collect()
}
