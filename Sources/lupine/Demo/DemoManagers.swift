internal import Foundation
internal import Lupine
internal import LupineTesting

/// What the demo shows of the managers.
enum DemoManagers {
  static let steps = [
    DemoStep(name: "Manager: JSON into a type", run: json),
    DemoStep(name: "Manager: multipart upload", run: multipart),
    DemoStep(name: "Manager: pinned key accepted, wrong pin refused", run: pins),
    DemoStep(name: "Manager: download resumed", run: resumedDownload),
  ]

  /// What the server says of an upload.
  private struct Receipt: Decodable, Sendable {
    var bytes: Int64
    var sha256: String
  }

  private static func manager(_ stage: DemoStage) throws -> HTTPSessionManager {
    let manager = try HTTPSessionManager(baseURL: stage.url("/"), configuration: stage.configuration)
    manager.completionQueue = DispatchQueue(label: "lupine.demo")
    return manager
  }

  private static func json(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let manager = try manager(stage)
    manager.requestSerializer = JSONRequestSerializer()
    let sent: JSONValue = ["name": "lupine", "petals": 5]
    let receipt: Receipt = try await manager.post("upload", parameters: sent)
    try demand(receipt.bytes == 28, "the server received \(receipt.bytes) bytes instead of 28")
    return [
      "POST of a JSON value, the answer decoded into a type: \(receipt.bytes) bytes, SHA-256 \(receipt.sha256.prefix(16))…"
    ]
  }

  private static func multipart(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let size = 8 << 20
    let file = FileManager.default.temporaryDirectory.appending(path: "lupine-demo-\(UUID().uuidString)")
    guard FileManager.default.createFile(atPath: file.path, contents: Data(PatternBody.bytes(size))) else {
      throw DemoFailure("\(file.path) cannot be written")
    }
    defer { try? FileManager.default.removeItem(at: file) }
    var form = MultipartFormData()
    form.append(Data("lupine".utf8), name: "author")
    try form.append(
      fileURL: file, name: "photo", fileName: "field of \"lupines\".bin", mimeType: "application/octet-stream")
    var request = try stage.request("/upload")
    request.method = .post
    form.apply(to: &request)
    let bar = console.progressBar
    defer { bar.clear() }
    let manager = try manager(stage)
    let receipt = try await withCheckedThrowingContinuation { continuation in
      let task = manager.uploadTask(
        withStreamedRequest: request, responseSerializer: JSONResponseSerializer(),
        progress: { bar.show($0.completedUnitCount, of: $0.totalUnitCount) },
        completion: { _, value, error in
          continuation.resume(with: error.map { .failure($0) } ?? .success(value as? JSONValue))
        })
      task.resume()
    }
    try demand(
      receipt?["bytes"]?.intValue.map(Int64.init) == form.contentLength,
      "the server received \(receipt?["bytes"]?.intValue ?? 0) bytes instead of \(form.contentLength ?? 0)")
    return [
      "a field and a file of \(Units.bytes(Int64(size))), \(Units.bytes(form.contentLength ?? 0)) in all, as announced"
    ]
  }

  private static func pins(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    guard let pin = PublicKeyPin(certificate: stage.authority)?.description else {
      throw DemoFailure("the authority has no key to pin")
    }
    let manager = try manager(stage)
    try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [pin]))
    let greeting = try await manager.get("hello", as: Data.self)
    try demand(greeting == Data("Hello, world!".utf8), "another answer")
    let requests = stage.server.requestCount
    let stranger = try CertificateAuthority(commonName: "Another authority")
    let wrong = PublicKeyPin(certificate: stranger.rootDER)?.description ?? ""
    try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [wrong]))
    do {
      _ = try await manager.get("hello", as: Data.self)
    } catch let error as SessionError where error.code == .serverCertificateUntrusted {
      try demand(stage.server.requestCount == requests, "the request left nevertheless")
      guard let reason = error.underlying as? SecurityPolicyError else { throw error }
      return ["\(pin.prefix(24))… accepted", "\(wrong.prefix(24))… refused (\(reason.reason)); no request had left"]
    }
    throw DemoFailure("a wrong pin was accepted")
  }

  private static func resumedDownload(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let size = 3 << 20
    // The server gives a third of it, then hangs up.
    let request = try stage.request("/bytes?n=\(size)&cut=\(size / 3)")
    let target = FileManager.default.temporaryDirectory.appending(path: "lupine-demo-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: target) }
    let manager = try manager(stage)
    var data: ResumeData?
    for attempt in 1...5 {
      switch await download(manager, request, data, to: target) {
      case .success(let file):
        let bytes = FileManager.default.contents(atPath: file.path) ?? Data()
        try demand(bytes.count == size && PatternBody.matches(Array(bytes), from: 0), "the file is not the original")
        return [
          "\(Units.bytes(Int64(size))) in \(attempt) parts, put together from resume data; every byte as expected"
        ]
      case .failure(let error):
        guard let rest = (error as? SessionError)?.resumeData else { throw error }
        data = rest
      }
    }
    throw DemoFailure("the download did not end")
  }

  private static func download(
    _ manager: SessionManager, _ request: Request, _ data: ResumeData?, to target: URL
  ) async -> Result<URL, any Error> {
    await withCheckedContinuation { continuation in
      let done: DownloadTaskHandler = { _, file, error in
        continuation.resume(
          returning: file.map { .success($0) } ?? .failure(error ?? DemoFailure("neither file nor error")))
      }
      let serializer = HTTPResponseSerializer()
      let task =
        if let data {
          manager.downloadTask(
            withResumeData: data, responseSerializer: serializer, destination: { _, _ in target }, completion: done)
        } else {
          manager.downloadTask(
            with: request, responseSerializer: serializer, destination: { _, _ in target }, completion: done)
        }
      task.resume()
    }
  }
}
