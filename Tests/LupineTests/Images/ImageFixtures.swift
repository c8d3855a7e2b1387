import Dispatch
import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// A PNG file up to its first chunk of pixels: all that is ever looked at.
enum TestImage {
  static func png(_ width: Int, _ height: Int) -> [UInt8] {
    let signature: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
    let header = [0, 0, 0, 13] + Array("IHDR".utf8) + bigEndian(width) + bigEndian(height) + [8, 2, 0, 0, 0]
    return signature + header + [0, 0, 0, 0] + [0, 0, 0, 0] + Array("IDAT".utf8) + [0, 0, 0, 0]
  }

  static func image(_ width: Int, _ height: Int) throws -> EncodedImage {
    try EncodedImage(data: Data(png(width, height)))
  }

  private static func bigEndian(_ value: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
  }
}

/// A server of images, and what a test needs to look at downloads: which were asked for, and when they may go on.
///
/// | Path | What it answers |
/// |---|---|
/// | `/image?w=&h=` | a PNG of that size; with `part=1`, of a request for a range its beginning |
/// | `/held?w=&h=` | the same, when the latch is open |
/// | `/text`, `/broken`, `/missing` | text; a PNG without its header; 404 |
/// | `/moved` | a redirect to `/image?w=7&h=7` |
struct ImageService {
  let server: LoopbackServer
  let latch: Latch
  let queue = DispatchQueue(label: "images")
  private let isOnQueue = DispatchSpecificKey<Bool>()

  init() throws {
    let latch = try Latch()
    self.latch = latch
    let png: @Sendable (ServerRequest, ServerConnection) throws -> Void = { request, connection in
      let body = TestImage.png(request.number("w") ?? 1, request.number("h") ?? 1)
      guard request.query("part") != nil, request.fields.first("Range") != nil else {
        return try connection.respond(fields: ["Content-Type": "image/png"], body: body)
      }
      let part = body.prefix(41)
      try connection.respond(
        206, fields: ["Content-Type": "image/png", "Content-Range": "bytes 0-\(part.count - 1)/\(body.count)"],
        body: Array(part))
    }
    server = try LoopbackServer(routes: [
      ServerRoute("GET", "/image", handler: png),
      ServerRoute("HEAD", "/image", handler: png),
      ServerRoute("GET", "/fresh") { _, connection in
        try connection.respond(
          fields: ["Content-Type": "image/png", "Cache-Control": "max-age=1000"], body: TestImage.png(2, 2))
      },
      ServerRoute("GET", "/held") { request, connection in
        guard try connection.stall(until: latch) == .released else { return }
        try png(request, connection)
      },
      ServerRoute("GET", "/text") { _, connection in
        try connection.respond(fields: ["Content-Type": "text/plain"], body: TestImage.png(2, 2))
      },
      ServerRoute("GET", "/broken") { _, connection in
        try connection.respond(fields: ["Content-Type": "image/png"], body: Array(TestImage.png(2, 2).prefix(12)))
      },
      ServerRoute("GET", "/missing") { _, connection in try connection.respond(404) },
      ServerRoute("GET", "/moved") { _, connection in
        try connection.respond(302, fields: ["Location": "/image?w=7&h=7"])
      },
    ])
    queue.setSpecific(key: isOnQueue, value: true)
  }

  /// A downloader whose completion handlers are called on `queue`.
  func downloader(
    _ prioritization: ImageDownloadPrioritization = .firstInFirstOut, maximum: Int = 4,
    cache: (any ImageRequestCache)? = AutoPurgingImageCache()
  ) throws -> ImageDownloader {
    var configuration = ImageDownloader.defaultConfiguration
    configuration.cookieStorage = CookieStorage()
    configuration.responseCache = ResponseCache()
    return try ImageDownloader(
      configuration: configuration, prioritization: prioritization, maximumActiveDownloads: maximum,
      imageCache: cache, completionQueue: queue)
  }

  var isOnCompletionQueue: Bool { DispatchQueue.getSpecific(key: isOnQueue) == true }

  func request(_ path: String) throws -> Request { try Request(server.url(path)) }

  /// Whether nothing is connected any more, as when a downloader has gone.
  func isDisconnected() async -> Bool { await until { server.openConnectionCount == 0 } }
}

/// Waits, letting others run, until something holds; says whether it came to that.
func until(seconds: Double = 60, _ condition: () -> Bool) async -> Bool {
  let deadline = ContinuousClock.now + .seconds(seconds)
  while !condition() {
    if ContinuousClock.now > deadline { return false }
    await Task.yield()
  }
  return true
}

/// `#expect` for what changes a state machine, which the macro cannot take apart.
func holds(_ condition: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation) {
  #expect(condition, comment, sourceLocation: sourceLocation)
}

/// What handlers were called with, in order.
final class Calls<Value: Sendable>: Sendable {
  private let values = Locked<[Value]>([])

  func note(_ value: Value) {
    values.withLock { $0.append(value) }
  }

  var all: [Value] { values.withLock { $0 } }

  /// The first so many, once they are there.
  func first(_ count: Int) async throws -> [Value] {
    try #require(await until { all.count >= count }, "\(all.count) calls instead of \(count)")
    return all
  }
}

extension Result {
  var failure: Failure? {
    if case .failure(let error) = self { return error }
    return nil
  }

  var success: Success? { try? get() }
}
