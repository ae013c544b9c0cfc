// Adds metadata to a TensorFlow Lite model: MediaPipe's tasks refuse a model that does not describe its input, and the model that the npm
// package has is older than that rule.
//
//   node model.mjs MODEL OUTPUT
//
// A model is a FlatBuffer, in which all references point forward by a relative distance. So the old file stays as it is, between a new root
// table, which refers into it, and the metadata, which is a FlatBuffer of its own in a buffer of the model.
import { readFileSync, writeFileSync } from 'node:fs';

// Writes a FlatBuffer from front to back. Tables are `{ table: { index: value } }`; values are strings, arrays of tables, `{ floats }` and
// `{ byte }`.
function flatbuffer(identifier, root) {
  const out = Buffer.alloc(4_096);
  let end = 8;
  const align = (to) => { end = Math.ceil(end / to) * to; };
  function write(value) {
    align(4);
    if (typeof value === 'string') {
      const start = end;
      end = out.writeUInt32LE(Buffer.byteLength(value), end);
      end += out.write(value, end) + 1;
      return start;
    }
    if (value.floats) {
      const start = end;
      end = out.writeUInt32LE(value.floats.length, end);
      for (const one of value.floats) end = out.writeFloatLE(one, end);
      return start;
    }
    if (Array.isArray(value)) {
      const start = end;
      end = out.writeUInt32LE(value.length, end) + 4 * value.length;
      value.forEach((one, index) => refer(start + 4 + 4 * index, one));
      return start;
    }
    const fields = Object.entries(value.table).map(([index, field]) => [Number(index), field]);
    const count = Math.max(...fields.map(([index]) => index)) + 1;
    const vtable = end;
    end += 4 + 2 * count;
    align(4);
    const table = end;
    out.writeUInt16LE(4 + 2 * count, vtable);
    out.writeUInt16LE(4 + 4 * fields.length, vtable + 2);
    out.writeInt32LE(table - vtable, table);
    end = table + 4 + 4 * fields.length;
    fields.forEach(([index, field], place) => {
      const at = table + 4 + 4 * place;
      out.writeUInt16LE(at - table, vtable + 4 + 2 * index);
      if (field.byte !== undefined) out.writeUInt8(field.byte, at);
      else refer(at, field);
    });
    return table;
  }
  const refer = (at, value) => out.writeUInt32LE(write(value) - at, at);
  out.write(identifier, 4);
  refer(0, root);
  align(16);
  return out.subarray(0, end);
}

// Indexes from MediaPipe's metadata_schema.fbs: normalization options with mean and deviation, for colors from 0 to 255; and image
// properties with the color space RGB.
const NORMALIZED = { table: { 0: { byte: 1 }, 1: { table: { 0: { floats: [0] }, 1: { floats: [255] } } } } };
const IMAGE = { table: { 0: { byte: 2 }, 1: { table: { 0: { byte: 1 } } } } };
// Metadata of a model with one subgraph: for its input, then for its output.
const METADATA = flatbuffer('M001', { table: { 0: 'ImageSegmenter', 3: [{ table: {
  2: [{ table: { 0: 'image', 3: IMAGE, 4: [NORMALIZED] } }], 3: [{ table: { 0: 'segmentation_masks', 3: IMAGE } }],
} }] } });

// Field indexes are from TensorFlow's schema.fbs.
function withMetadata(model) {
  const root = model.readUInt32LE(0);
  const vtable = root - model.readInt32LE(root);
  const field = (index) => {
    const offset = 4 + 2 * index < model.readUInt16LE(vtable) ? model.readUInt16LE(vtable + 4 + 2 * index) : 0;
    return offset ? root + offset : 0;
  };
  const target = (at) => at + model.readUInt32LE(at);
  const elements = (at) => (at ? Array.from({ length: model.readUInt32LE(target(at)) }, (_, index) => target(target(at) + 4 + 4 * index)) : []);
  const [version, codes, subgraphs, description, buffers, , metadata] = [0, 1, 2, 3, 4, 5, 6].map(field);
  const [oldBuffers, oldMetadata] = [elements(buffers), elements(metadata)];
  // Weights are aligned to 16 bytes.
  const size = Math.ceil((160 + 4 * (oldBuffers.length + oldMetadata.length)) / 16) * 16;
  const head = Buffer.alloc(size);
  const body = Buffer.concat([model, Buffer.alloc(15 - ((model.length + 15) % 16))]);
  const tail = Buffer.alloc(16);
  tail.writeUInt32LE(METADATA.length, 12);
  const data = size + body.length + 12;
  head.write('TFL3', 4);
  let end = 8;
  const u16 = (...values) => { for (const value of values) end = head.writeUInt16LE(value, end); };
  const to = (position) => { head.writeUInt32LE(position - end, end); end += 4; };
  // The root table, which keeps version, operator codes, subgraphs and description, and has its own lists of buffers and metadata.
  u16(18, 28, 4, 8, 12, 16, 20, 0, 24, 0);
  end = 28;
  head.writeUInt32LE(28, 0);
  end = head.writeInt32LE(20, end);
  end = head.writeUInt32LE(model.readUInt32LE(version), end);
  for (const one of [codes, subgraphs, description]) to(size + target(one));
  const [buffersAt, metadataAt] = [end, end + 4];
  end += 8;
  const point = (at) => head.writeUInt32LE(end - at, at);
  point(buffersAt);
  end = head.writeUInt32LE(oldBuffers.length + 1, end);
  for (const one of oldBuffers) to(size + one);
  const bufferAt = end;
  end += 4;
  point(metadataAt);
  end = head.writeUInt32LE(oldMetadata.length + 1, end);
  for (const one of oldMetadata) to(size + one);
  const entryAt = end;
  end += 4;
  const buffer = end;
  u16(6, 8, 4, 0);
  point(bufferAt);
  end = head.writeInt32LE(end - buffer, end);
  to(data);
  const entry = end;
  u16(8, 12, 4, 8);
  point(entryAt);
  end = head.writeInt32LE(end - entry, end);
  const nameAt = end;
  end = head.writeUInt32LE(0, end);
  end = head.writeUInt32LE(oldBuffers.length, end);
  point(nameAt);
  end = head.writeUInt32LE('TFLITE_METADATA'.length, end);
  end += head.write('TFLITE_METADATA', end) + 1;
  if (end > size) throw new Error(`the new root has ${end} bytes instead of ${size}`);
  return Buffer.concat([head, body, tail, METADATA]);
}
writeFileSync(process.argv[3], withMetadata(readFileSync(process.argv[2])));
