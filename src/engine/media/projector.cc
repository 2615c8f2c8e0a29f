#include "engine/media/projector.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#ifdef KVKEEP_MTMD
#include <mtmd-helper.h>
#include <mtmd.h>
#endif

#include "base/mutex.h"
#include "engine/gguf/model_identity.h"
#include "engine/llama/model_file.h"

namespace kvkeep::engine::media {

#ifndef KVKEEP_MTMD

Result<std::unique_ptr<Projector>> load_projector(const ProjectorOptions&, llama::ModelHandle) {
  return unsupported("this kvkeep was built without libmtmd: it knows no pictures and sound");
}

#else

namespace {

struct MtmdDeleter {
  void operator()(mtmd_context* context) const { mtmd_free(context); }
  void operator()(mtmd_bitmap* bitmap) const { mtmd_bitmap_free(bitmap); }
  void operator()(mtmd_input_chunks* chunks) const { mtmd_input_chunks_free(chunks); }
};
using ContextHandle = std::unique_ptr<mtmd_context, MtmdDeleter>;
using BitmapHandle = std::unique_ptr<mtmd_bitmap, MtmdDeleter>;
using ChunksHandle = std::unique_ptr<mtmd_input_chunks, MtmdDeleter>;

// Watches the encoder node by node: libmtmd has no other way to stop it or to see how far it is. Nodes are let through
// in groups, because each stop between them costs time.
class EncodeWatch {
 public:
  // Returns false if the encoding is to end before it begins.
  bool begin(const EncodeProgress* progress, std::size_t chunk, std::size_t chunks) {
    progress_ = progress;
    chunk_ = chunk;
    chunks_ = chunks;
    nodes_ = 0;
    goes_on_ = true;
    report(0);
    return goes_on_;
  }
  // Returns false if the encoding was to end.
  bool end() {
    if (goes_on_) nodes_of_last_ = nodes_;
    report(1);
    progress_ = nullptr;
    return goes_on_;
  }
  static bool on_node(ggml_tensor*, bool asks, void* self) { return static_cast<EncodeWatch*>(self)->on_node(asks); }

 private:
  static constexpr std::size_t kGroup = 16;

  // The scheduler asks before each node whether it shall stop after it, and then reports there.
  bool on_node(bool asks) {
    if (asks) return ++nodes_ % kGroup == 0;
    if (nodes_of_last_ > 0) report(static_cast<double>(nodes_) / static_cast<double>(nodes_of_last_));
    if (nodes_of_last_ == 0) report(0);
    return goes_on_;
  }
  void report(double share) {
    if (progress_ == nullptr || !*progress_ || !goes_on_) return;
    const double done = static_cast<double>(chunk_) + std::min(share, 1.0);
    goes_on_ = (*progress_)(done / static_cast<double>(chunks_));
  }

  const EncodeProgress* progress_ = nullptr;
  std::size_t chunk_ = 0;
  std::size_t chunks_ = 1;
  std::size_t nodes_ = 0;
  std::size_t nodes_of_last_ = 0;  // how many nodes the last chunk had: the next one has as many, or nearly
  bool goes_on_ = true;
};

class MtmdProjector final : public Projector {
 public:
  static Result<std::unique_ptr<Projector>> load(const ProjectorOptions& options, llama::ModelHandle model);

  const ProjectorDescription& description() const override { return description_; }
  double sound_seconds(ByteSpan file) const override;
  std::uint64_t pixels(ByteSpan file) const override { return promised_pixels(file); }
  Result<std::vector<MediaPart>> plan(ByteSpan file) const override;
  Result<std::vector<EncodedChunk>> encode(ByteSpan file, std::size_t first, const EncodeProgress& progress) override
      EXCLUDES(mutex_);

 private:
  MtmdProjector(const ProjectorOptions& options, llama::ModelHandle model)
      : options_(options), model_(std::move(model)) {}

  void describe();
  Result<ChunksHandle> chunks_of(const mtmd_bitmap& bitmap) const;
  Result<BitmapHandle> decode_with_libmtmd(ByteSpan file, const MediaHead& head) const;
  Result<BitmapHandle> decode_picture(ByteSpan file, const MediaHead& head) const;
  Result<BitmapHandle> decode_sound(ByteSpan file, const MediaHead& head, bool only_count) const;
  Result<ChunksHandle> read(ByteSpan file, const EncodeProgress* progress) const;
  Result<MediaPart> part_of(const mtmd_input_chunk& chunk) const;
  Result<std::vector<MediaPart>> parts_of(const mtmd_input_chunks& chunks) const;
  Status check_at_once(const mtmd_input_chunk& chunk, const MediaPart& part) const;
  Status check_head(ByteSpan file, const std::vector<MediaPart>& parts) const;
  std::vector<PlanePlace> places_of(const mtmd_input_chunk& chunk) const;
  Result<std::vector<EncodedChunk>> encode_file(ByteSpan file, std::size_t first, const EncodeProgress& progress)
      EXCLUDES(mutex_);
  Result<EncodedChunk> encode_chunk(const mtmd_input_chunk& chunk) REQUIRES(mutex_);

  const ProjectorOptions options_;
  const llama::ModelHandle model_;
  ProjectorDescription description_;
  EncodeWatch watch_;
  ContextHandle context_;
  Mutex mutex_;  // one encoding at a time: the context has one buffer for results
};

bool is_image(const mtmd_input_chunk& chunk) {
  return mtmd_input_chunk_get_type(&chunk) == MTMD_INPUT_CHUNK_TYPE_IMAGE;
}

// Returns null if the processor encodes. Errors: kInvalid.
Result<ggml_backend_dev_t> encoding_device(const ProjectorOptions& options) {
  if (!options.device.empty()) {
    ggml_backend_dev_t device = ggml_backend_dev_by_name(options.device.c_str());
    if (device == nullptr) return invalid("this machine has no device '" + options.device + "': see --list-devices");
    return ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU ? nullptr : device;
  }
  for (const auto type : {GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU}) {
    ggml_backend_dev_t device = options.use_gpu ? ggml_backend_dev_by_type(type) : nullptr;
    if (device != nullptr) return device;
  }
  return nullptr;
}

// Adds what libmtmd logged since, if it did.
std::string with_reason(const std::string& what, std::uint64_t mark) {
  const std::string reason = llama::log_reason_since(mark);
  return reason.empty() ? what : what + ": " + reason;
}

Error not_a_projector(const std::string& path, std::uint64_t mark) {
  return damaged(with_reason(path + " is no projector of this model", mark));
}

// libmtmd throws over some sizes, and where memory ends.
template <typename Work>
auto without_exceptions(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return io_error("there is not enough memory for it");
  } catch (const std::exception& error) {
    return damaged(std::string("the projector cannot take it: ") + error.what());
  }
}

Result<std::unique_ptr<Projector>> MtmdProjector::load(const ProjectorOptions& options, llama::ModelHandle model) {
  if (options.most_tokens != 0 && options.least_tokens > options.most_tokens) {
    return invalid("a picture cannot have at least " + std::to_string(options.least_tokens) + " and at most " +
                   std::to_string(options.most_tokens) + " tokens");
  }
  llama::start_library();
  TRY_ASSIGN(const ModelHash identity,
             options.identity ? options.identity(options.path)
                              : gguf::model_identity(llama::open_linked, options.path, gguf::IdentityDepth::kFull));
  std::unique_ptr<MtmdProjector> made(new MtmdProjector(options, std::move(model)));
  mtmd_context_params params = mtmd_context_params_default();
  TRY_ASSIGN(ggml_backend_dev_t const device, encoding_device(options));
  params.use_gpu = device != nullptr;
  params.device = device;
  params.print_timings = false;
  params.n_threads = static_cast<int>(options.threads);
  params.warmup = options.warmup;
  if (options.least_tokens != 0) params.image_min_tokens = static_cast<int>(options.least_tokens);
  if (options.most_tokens != 0) params.image_max_tokens = static_cast<int>(options.most_tokens);
  params.cb_eval = EncodeWatch::on_node;
  params.cb_eval_user_data = &made->watch_;
  llama::catch_log(mtmd_helper_log_set);
  const llama::AbortNet net(options.path);
  const std::uint64_t mark = llama::log_mark();
  made->context_.reset(mtmd_init_from_file(options.path.c_str(), made->model_.get(), params));
  if (!made->context_) return not_a_projector(options.path, mark);
  made->description_.identity = identity;
  made->description_.device = device != nullptr ? ggml_backend_dev_description(device) : "CPU";
  made->describe();
  return std::unique_ptr<Projector>(std::move(made));
}

void MtmdProjector::describe() {
  description_.pictures = mtmd_support_vision(context_.get());
  description_.sound = mtmd_support_audio(context_.get());
  if (description_.sound) {
    description_.samples_per_second = static_cast<std::uint32_t>(mtmd_get_audio_sample_rate(context_.get()));
  }
  if (!description_.pictures || !mtmd_decode_use_non_causal(context_.get(), nullptr)) return;
  // A large square picture has as many tokens as any, or nearly (check_at_once()).
  constexpr std::uint32_t kLargeSide = 8'192;
  const BitmapHandle large(mtmd_bitmap_init(kLargeSide, kLargeSide, nullptr));
  const auto chunks = chunks_of(*large);
  for (std::size_t i = 0; chunks && i < mtmd_input_chunks_size(chunks->get()); ++i) {
    const auto part = part_of(*mtmd_input_chunks_get(chunks->get(), i));
    if (part) description_.tokens_at_once = std::max(description_.tokens_at_once, part->shape.embeddings);
  }
}

Result<ChunksHandle> MtmdProjector::chunks_of(const mtmd_bitmap& bitmap) const {
  ChunksHandle chunks(mtmd_input_chunks_init());
  const mtmd_input_part part{.text = nullptr, .bitmap = &bitmap};
  const mtmd_input_part* const parts[] = {&part};
  const std::uint64_t mark = llama::log_mark();
  if (mtmd_tokenize_from_parts(context_.get(), chunks.get(), parts, 1, false) == 0) return chunks;
  return damaged(with_reason("the projector cannot take it", mark));
}

Result<BitmapHandle> MtmdProjector::decode_with_libmtmd(ByteSpan file, const MediaHead& head) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  const auto read =
      mtmd_helper_bitmap_init_from_buf(context_.get(), bytes, file.size(), false, mtmd_helper_init_opt_default());
  BitmapHandle bitmap(read.bitmap);
  if (!bitmap) return damaged("it cannot be decoded as " + std::string(to_string(head.format)));
  return bitmap;
}

Result<BitmapHandle> MtmdProjector::decode_picture(ByteSpan file, const MediaHead& head) const {
  if (head.format == Format::kPng) TRY(check_png_pixels(file));
  if (head.format == Format::kGif) TRY(check_gif_pixels(file));
  if (head.format != Format::kWebp) return decode_with_libmtmd(file, head);
  TRY_ASSIGN(const std::vector<std::uint8_t> pixels, webp_pixels(file, head));
  return BitmapHandle(mtmd_bitmap_init(head.width, head.height, pixels.data()));
}

// libmtmd knows itself how many samples it makes of those in the file.
Result<BitmapHandle> MtmdProjector::decode_sound(ByteSpan file, const MediaHead& head, bool only_count) const {
  TRY_ASSIGN(BitmapHandle bitmap, decode_with_libmtmd(plain_sound(file), head));
  const std::uint32_t rate = description_.samples_per_second;
  const std::size_t count = mtmd_bitmap_get_n_bytes(bitmap.get()) / sizeof(float);
  if (count == 0) return damaged("it has no samples");
  if (static_cast<double>(count) > (head.seconds + 1) * rate) return damaged("it has more samples than were counted");
  const auto* samples = reinterpret_cast<const float*>(mtmd_bitmap_get_data(bitmap.get()));
  TRY(check_samples({samples, count}, rate));
  const std::size_t whole = whole_windows(count, rate);
  if (only_count) return BitmapHandle(mtmd_bitmap_init_from_audio(whole, nullptr));
  if (whole == count) return bitmap;
  std::vector<float> padded(samples, samples + count);
  padded.resize(whole);
  return BitmapHandle(mtmd_bitmap_init_from_audio(whole, padded.data()));
}

// Reads only what the parts depend on if `progress` is null.
Result<ChunksHandle> MtmdProjector::read(ByteSpan file, const EncodeProgress* progress) const {
  const bool only_head = progress == nullptr;
  TRY_ASSIGN(const MediaHead head, read_head(file, options_.limits));
  if (head.format == Format::kWebp) TRY(check_webp_support());
  if (head.medium == Medium::kPicture && !description_.pictures) return unsupported("the model does not see pictures");
  if (head.medium == Medium::kSound && !description_.sound) return unsupported("the model does not hear sound");
  if (head.medium == Medium::kSound) {
    TRY_ASSIGN(const BitmapHandle sound, decode_sound(file, head, only_head));
    // To prepare it for the encoder takes longer than to decode it, and cannot be ended.
    if (!only_head && *progress && !(*progress)(0)) return aborted("the encoding was ended");
    return chunks_of(*sound);
  }
  // The head of a picture has all that its parts depend on.
  TRY_ASSIGN(const BitmapHandle picture,
             only_head ? Result<BitmapHandle>(BitmapHandle(mtmd_bitmap_init(head.width, head.height, nullptr)))
                       : decode_picture(file, head));
  return chunks_of(*picture);
}

Result<MediaPart> MtmdProjector::part_of(const mtmd_input_chunk& chunk) const {
  MediaPart part;
  if (mtmd_input_chunk_get_type(&chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
    std::size_t count = 0;
    const llama_token* tokens = mtmd_input_chunk_get_tokens_text(&chunk, &count);
    part.tokens.assign(tokens, tokens + count);
    return part;
  }
  part.shape.embeddings = static_cast<std::uint32_t>(mtmd_input_chunk_get_n_tokens(&chunk));
  part.shape.positions = static_cast<std::uint32_t>(mtmd_input_chunk_get_n_pos(&chunk));
  part.shape.plane = is_image(chunk) && mtmd_decode_use_mrope(context_.get());
  part.shape.sound = !is_image(chunk);
  const bool known = part.shape.embeddings > 0 && part.shape.embeddings <= kMostChunkPositions &&
                     (part.shape.plane || part.shape.positions == part.shape.embeddings);
  if (!known) return unsupported("positions of this kind of projector are not known");
  return part;
}

// Of some projectors a picture of another shape has more embeddings than the square one that the start looked at.
Status MtmdProjector::check_at_once(const mtmd_input_chunk& chunk, const MediaPart& part) const {
  const std::uint32_t count = part.shape.embeddings;
  if (!part.is_chunk() || options_.most_at_once == 0 || count <= options_.most_at_once) return {};
  if (!mtmd_decode_use_non_causal(context_.get(), &chunk)) return {};
  const std::string number = std::to_string(count);
  return no_space("the model looks at its " + number + " tokens at once, and this server's micro-batches have " +
                  std::to_string(options_.most_at_once) + ": it needs --ubatch-size " + number + " and --batch-size " +
                  number);
}

Result<std::vector<MediaPart>> MtmdProjector::parts_of(const mtmd_input_chunks& chunks) const {
  std::vector<MediaPart> parts;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(&chunks); ++i) {
    const mtmd_input_chunk& chunk = *mtmd_input_chunks_get(&chunks, i);
    TRY_ASSIGN(parts.emplace_back(), part_of(chunk));
    TRY(check_at_once(chunk, parts.back()));
  }
  return parts;
}

double MtmdProjector::sound_seconds(ByteSpan file) const {
  if (!begins_like_sound(file)) return 0;
  const auto head = read_head(file, options_.limits);
  if (!head || head->medium != Medium::kSound) return 0;
  const double of_limit = static_cast<double>(head->samples) / static_cast<double>(options_.limits.samples);
  return std::max(head->seconds, of_limit * options_.limits.seconds);
}

Result<std::vector<MediaPart>> MtmdProjector::plan(ByteSpan file) const {
  return without_exceptions([&]() -> Result<std::vector<MediaPart>> {
    TRY_ASSIGN(const ChunksHandle chunks, read(file, nullptr));
    return parts_of(*chunks);
  });
}

std::vector<PlanePlace> MtmdProjector::places_of(const mtmd_input_chunk& chunk) const {
  const mtmd_image_tokens* tokens = mtmd_input_chunk_get_tokens_image(&chunk);
  std::vector<PlanePlace> places(mtmd_input_chunk_get_n_tokens(&chunk));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const mtmd_decoder_pos position = mtmd_image_tokens_get_decoder_pos(tokens, 0, i);
    places[i] = {.time = position.t, .row = position.y, .column = position.x};
  }
  return places;
}

Result<EncodedChunk> MtmdProjector::encode_chunk(const mtmd_input_chunk& chunk) {
  TRY_ASSIGN(const MediaPart part, part_of(chunk));
  const std::uint64_t mark = llama::log_mark();
  if (mtmd_encode_chunk(context_.get(), &chunk) != 0) {
    return io_error(with_reason("the projector failed", mark));
  }
  EncodedChunk encoded{.shape = part.shape};
  const auto width = static_cast<std::size_t>(llama_model_n_embd_inp(model_.get()));
  const float* embeddings = mtmd_get_output_embd(context_.get());
  encoded.embeddings.assign(embeddings, embeddings + part.shape.embeddings * width);
  // The model would make NaN of them for every token that sees them, and keep that.
  if (!std::ranges::all_of(encoded.embeddings, [](float each) { return std::isfinite(each); })) {
    return damaged("the projector makes NaN or infinite numbers of it");
  }
  if (part.shape.plane) encoded.places = places_of(chunk);
  encoded.at_once = mtmd_decode_use_non_causal(context_.get(), &chunk);
  return encoded;
}

// The parts of a sound were counted from its samples, which takes as long as to read it, and not from its head.
Status MtmdProjector::check_head(ByteSpan file, const std::vector<MediaPart>& parts) const {
  if (sound_seconds(file) > 0) return {};
  TRY_ASSIGN(const std::vector<MediaPart> planned, plan(file));
  return planned == parts ? Status() : damaged("it has other parts than its head says");
}

Result<std::vector<EncodedChunk>> MtmdProjector::encode(ByteSpan file, std::size_t first,
                                                        const EncodeProgress& progress) {
  return without_exceptions([&] { return encode_file(file, first, progress); });
}

Result<std::vector<EncodedChunk>> MtmdProjector::encode_file(ByteSpan file, std::size_t first,
                                                             const EncodeProgress& progress) {
  TRY_ASSIGN(const ChunksHandle chunks, read(file, &progress));
  TRY_ASSIGN(const std::vector<MediaPart> parts, parts_of(*chunks));
  TRY(check_head(file, parts));
  const auto all = static_cast<std::size_t>(std::ranges::count_if(parts, &MediaPart::is_chunk));
  const std::size_t wanted = all - std::min(all, first);
  std::vector<EncodedChunk> encoded;
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is_chunk()) continue;
    if (encoded.size() < first) {
      encoded.push_back({.shape = parts[i].shape});
      continue;
    }
    const mtmd_input_chunk& chunk = *mtmd_input_chunks_get(chunks.get(), i);
    const bool begins = watch_.begin(&progress, encoded.size() - first, wanted);
    auto made = begins ? encode_chunk(chunk) : Result<EncodedChunk>(aborted("the encoding was ended"));
    if (!watch_.end()) return aborted("the encoding was ended");
    if (!made) return std::move(made).error();
    encoded.push_back(std::move(made).value());
  }
  return encoded;
}

}  // namespace

Result<std::unique_ptr<Projector>> load_projector(const ProjectorOptions& options, llama::ModelHandle model) {
  return MtmdProjector::load(options, std::move(model));
}

#endif

}  // namespace kvkeep::engine::media
