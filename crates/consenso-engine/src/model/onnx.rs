//! A model as an ONNX file, so that any ONNX runtime applies it: one input per column of the
//! schema, in the column's own unit or words.
//!
//! The graph does what [`Encoder::encode`](crate::data::Encoder::encode) and the loss do, in double
//! precision: numbers are clamped to their declared range, categories become one-hot, one affine
//! map gives the features, rows are divided by their norm where the encoding says so, and one more
//! map gives the scores. ONNX files are protocol buffers; the dozen messages needed are written by
//! hand below, for a library would cost more than they do.

use super::{Model, ModelError, margin_of};
use crate::data::FeaturePart;
use crate::problem::Loss;

/// Element types of tensors.
const INT64: u64 = 7;
const STRING: u64 = 8;
const DOUBLE: u64 = 11;

/// A protocol buffer message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A whole number.
    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// Bytes, a text or a message.
    fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    fn each<T>(self, values: impl IntoIterator<Item = T>, add: impl Fn(Self, T) -> Self) -> Self {
        values.into_iter().fold(self, add)
    }
}

/// The graph in the making.
#[derive(Default)]
struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
}

/// An attribute of a node.
enum Attribute<'a> {
    Int(u64),
    Ints(Vec<u64>),
    Strings(&'a [String]),
}

/// A tensor of rows × `width` elements.
fn value(name: &str, kind: u64, width: usize) -> Message {
    let rows = Message::default().bytes(2, "rows");
    let columns = Message::default().number(1, width as u64);
    let shape = Message::default().message(1, &rows).message(1, &columns);
    let tensor = Message::default().number(1, kind).message(2, &shape);
    Message::default().bytes(1, name).message(2, &Message::default().message(1, &tensor))
}

impl Graph {
    fn constant(
        &mut self,
        name: &str,
        shape: &[usize],
        kind: u64,
        raw: impl Iterator<Item = [u8; 8]>,
    ) {
        let raw: Vec<u8> = raw.flatten().collect();
        let tensor = Message::default().each(shape, |m, &n| m.number(1, n as u64));
        self.constants.push(tensor.number(2, kind).bytes(8, name).bytes(9, raw));
    }

    fn doubles(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        self.constant(name, shape, DOUBLE, values.iter().map(|v| v.to_le_bytes()));
    }

    fn integers(&mut self, name: &str, values: &[i64]) {
        self.constant(name, &[values.len()], INT64, values.iter().map(|v| v.to_le_bytes()));
    }

    /// Adds an operation; those on words are of the domain `ai.onnx.ml`.
    fn node(
        &mut self,
        operation: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, Attribute<'_>)],
    ) {
        let of_words = matches!(operation, "OneHotEncoder" | "LabelEncoder");
        let node = Message::default().each(inputs, |m, name| m.bytes(1, name)).bytes(2, output);
        let node =
            node.bytes(3, output).bytes(4, operation).each(attributes, |m, (name, attribute)| {
                let one = Message::default().bytes(1, name);
                let one = match attribute {
                    Attribute::Int(value) => one.number(3, *value).number(20, 2),
                    Attribute::Ints(values) => {
                        one.each(values, |m, v| m.number(8, *v)).number(20, 7)
                    }
                    Attribute::Strings(values) => {
                        one.each(*values, |m, v| m.bytes(9, v)).number(20, 8)
                    }
                };
                m.message(5, &one)
            });
        self.nodes.push(if of_words { node.bytes(7, "ai.onnx.ml") } else { node });
    }
}

impl Model {
    /// The model as an ONNX file, with the weights of one agent or the mean.
    ///
    /// Its inputs are the feature columns by name, each `[rows, 1]`: numbers as `double`,
    /// categories as `string` (a category the schema does not list counts as none). Its outputs are
    /// `prediction` and, for classes, `probability` (of the positive of two) or `probabilities`.
    /// Missing values are not handled there: fill them in as the schema says.
    ///
    /// # Errors
    /// That it cannot be applied to records, or has no such agent.
    pub fn to_onnx(&self, agent: Option<&str>) -> Result<Vec<u8>, ModelError> {
        let (schema, encoder, loss) = self.applicable()?;
        let weights = self.weights_of(agent)?;
        if loss.proportional().is_some() || encoder.has_offset() {
            return Err(ModelError::NotApplicable(
                "models of hazards, of ordered classes and with exposures are not written as ONNX: use `consenso predict`".into(),
            ));
        }
        let mut graph = Graph::default();
        let (pieces, dim) = (encoder.pieces(schema), encoder.dim());
        // Rows of the map from clamped numbers and one-hot words to features.
        let (mut map, mut offset, mut parts) = (Vec::new(), vec![0.0; dim], Vec::new());
        let mut at = 0;
        for (index, (column, piece)) in schema.features().zip(&pieces).enumerate() {
            let part = format!("part {index}");
            match piece {
                FeaturePart::Number { low, high, slope, offset: by } => {
                    graph.inputs.push(value(&column.name, DOUBLE, 1));
                    let (least, most) = (format!("least {index}"), format!("most {index}"));
                    graph.doubles(&least, &[], &[*low]);
                    graph.doubles(&most, &[], &[*high]);
                    graph.node("Clip", &[&column.name, &least, &most], &part, &[]);
                    let mut row = vec![0.0; dim];
                    row[at] = *slope;
                    map.extend(row);
                    offset[at] = *by;
                    at += 1;
                }
                FeaturePart::Words { words, rows } => {
                    graph.inputs.push(value(&column.name, STRING, 1));
                    let (hot, flat, shape) =
                        (format!("hot {index}"), format!("flat {index}"), format!("shape {index}"));
                    let attributes =
                        [("cats_strings", Attribute::Strings(words)), ("zeros", Attribute::Int(1))];
                    graph.node("OneHotEncoder", &[&column.name], &hot, &attributes);
                    graph.integers(&shape, &[-1, words.len() as i64]);
                    graph.node("Reshape", &[&hot, &shape], &flat, &[]);
                    graph.node("Cast", &[&flat], &part, &[("to", Attribute::Int(DOUBLE))]);
                    let width = rows.first().map_or(0, Vec::len);
                    for word in rows {
                        let mut row = vec![0.0; dim];
                        row[at..at + width].copy_from_slice(word);
                        map.extend(row);
                    }
                    at += width;
                }
            }
            parts.push(part);
        }
        if let Some(bias) = encoder.bias() {
            offset[bias] = 1.0;
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        graph.node("Concat", &parts, "columns", &[("axis", Attribute::Int(1))]);
        graph.doubles("map", &[map.len() / dim.max(1), dim], &map);
        graph.doubles("offset", &[dim], &offset);
        graph.node("MatMul", &["columns", "map"], "mapped", &[]);
        graph.node("Add", &["mapped", "offset"], "row", &[]);
        let mut row = "row";
        if encoder.unit_rows() {
            graph.integers("across", &[1]);
            graph.node("Mul", &["row", "row"], "squares", &[]);
            graph.node(
                "ReduceSum",
                &["squares", "across"],
                "square",
                &[("keepdims", Attribute::Int(1))],
            );
            graph.node("Sqrt", &["square"], "norm", &[]);
            graph.node("Div", &["row", "norm"], "unit row", &[]);
            row = "unit row";
        }
        let outputs = loss.outputs();
        let transposed: Vec<f64> =
            (0..dim).flat_map(|l| (0..outputs).map(move |c| weights[c * dim + l])).collect();
        graph.doubles("weights", &[dim, outputs], &transposed);
        let (least, most) = super::range_of_answers(schema, encoder);
        let within = (least.is_finite() && most.is_finite()).then_some((least, most));
        let answers = if within.is_some() { "answer" } else { "prediction" };
        let logs = loss.has_log_link() || schema.has_log_label();
        let scores = if loss.classifies() || logs { "scores" } else { answers };
        graph.node("MatMul", &[row, "weights"], scores, &[]);
        self.finish(&mut graph, loss, within, logs);
        Ok(self.onnx_file(&graph, agent))
    }

    /// From scores to answers.
    fn finish(&self, graph: &mut Graph, loss: &Loss, within: Option<(f64, f64)>, logs: bool) {
        if !loss.classifies() {
            let answers = if within.is_some() { "answer" } else { "prediction" };
            if logs {
                graph.node("Exp", &["scores"], answers, &[]);
            }
            if let Some((least, most)) = within {
                graph.doubles("least answer", &[], &[least]);
                graph.doubles("most answer", &[], &[most]);
                graph.node("Clip", &["answer", "least answer", "most answer"], "prediction", &[]);
            }
            graph.outputs.push(value("prediction", DOUBLE, 1));
            return;
        }
        let classes = loss.outputs();
        if classes == 1 {
            if let Loss::Probit { .. } = loss {
                graph.doubles("root", &[1], &[std::f64::consts::SQRT_2]);
                graph.doubles("one", &[1], &[1.0]);
                graph.doubles("half", &[1], &[0.5]);
                graph.node("Div", &["scores", "root"], "deviations", &[]);
                graph.node("Erf", &["deviations"], "balance", &[]);
                graph.node("Add", &["balance", "one"], "double", &[]);
                graph.node("Mul", &["double", "half"], "probability", &[]);
            } else {
                graph.node("Sigmoid", &["scores"], "probability", &[]);
            }
            graph.doubles("cut", &[1], &[margin_of(self.threshold.unwrap_or(0.5))]);
            graph.node("Greater", &["scores", "cut"], "above", &[]);
            graph.node("Cast", &["above"], "class", &[("to", Attribute::Int(INT64))]);
            graph.outputs.push(value("probability", DOUBLE, 1));
        } else {
            graph.node("Softmax", &["scores"], "probabilities", &[("axis", Attribute::Int(1))]);
            let last = [("axis", Attribute::Int(1)), ("select_last_index", Attribute::Int(1))];
            graph.node("ArgMax", &["scores"], "class", &last);
            graph.outputs.push(value("probabilities", DOUBLE, classes));
        }
        let keys = Attribute::Ints((0..self.classes.len() as u64).collect());
        let names = Attribute::Strings(&self.classes);
        graph.node(
            "LabelEncoder",
            &["class"],
            "prediction",
            &[("keys_int64s", keys), ("values_strings", names)],
        );
        graph.outputs.push(value("prediction", STRING, 1));
    }

    fn onnx_file(&self, graph: &Graph, agent: Option<&str>) -> Vec<u8> {
        let body = Message::default()
            .each(&graph.nodes, |m, node| m.message(1, node))
            .bytes(2, &self.study.name)
            .each(&graph.constants, |m, tensor| m.message(5, tensor))
            .each(&graph.inputs, |m, input| m.message(11, input))
            .each(&graph.outputs, |m, output| m.message(12, output));
        let set =
            |domain: &str, version: u64| Message::default().bytes(1, domain).number(2, version);
        let claim = match &self.claim {
            None => "none: trained without privacy".to_owned(),
            Some(claim) => format!("epsilon = {}, delta = {}", claim.epsilon, claim.delta),
        };
        let facts = [
            ("study", self.study.name.clone()),
            ("study_sha256", self.study.sha256.clone()),
            ("algorithm", self.study.label.clone()),
            ("agent", agent.unwrap_or("the mean of all").to_owned()),
            ("target", self.target.clone().unwrap_or_default()),
            ("classes", self.classes.join("|")),
            ("privacy_claim", claim),
        ];
        let fact = |m: Message, (key, text): (&str, String)| {
            m.message(14, &Message::default().bytes(1, key).bytes(2, text))
        };
        Message::default()
            .number(1, 7)
            .bytes(2, "consenso")
            .bytes(3, env!("CARGO_PKG_VERSION"))
            .message(7, &body)
            .message(8, &set("", 13))
            .message(8, &set("ai.onnx.ml", 2))
            .each(facts, fact)
            .0
    }
}
