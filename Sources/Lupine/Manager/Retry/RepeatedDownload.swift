internal import Foundation
internal import LupineSession

/// The attempts of an awaited download: each goes on where the one before it stopped, if it can.
struct RepeatedDownload {
  typealias Saved = (file: URL, response: Response)
  /// One task, which goes on from the resume data if there is any.
  typealias Attempt = @Sendable (Request, ResumeData?) async throws -> Saved

  /// What the caller gave, and keeps.
  private let given: ResumeData?
  /// What the last attempt failed with, unless it never came to a task.
  private var failure: SessionError?
  private let attempt: Attempt

  private enum Answer {
    case saved(Saved)
    /// By its status, its serializer, or what moved the file.
    case refused(any Error)

    /// Body and response of a status that another attempt may be made for.
    var refusal: (Data, Response)? {
      guard case .refused(let error) = self else { return nil }
      let (response, data) =
        if let error = error as? SerializationError {
          (error.response, error.data)
        } else if let error = error as? SessionError {
          (error.response, error.partialBody.map { Data($0) })
        } else {
          (Response?.none, Data?.none)
        }
      guard let response, response.statusCode >= 400 else { return nil }
      return (data ?? Data(), response)
    }
  }

  init(_ resumeData: ResumeData?, _ attempt: @escaping Attempt) {
    given = resumeData
    self.attempt = attempt
  }

  mutating func run(
    _ original: Request, _ retrying: RetryLoop, temporaryDirectory: String?
  ) async throws -> Saved {
    let end = try await retrying.run(original) { request throws(SessionError) in
      try await answer(to: request, madeOf: original, temporaryDirectory)
    } refusal: {
      $0.refusal
    }
    switch end {
    case .saved(let saved): return saved
    case .refused(let error): throw error
    }
  }

  private mutating func answer(
    to request: Request, madeOf original: Request, _ temporaryDirectory: String?
  ) async throws(SessionError) -> Answer {
    var resumeData = failure.map { $0.resumeData } ?? given
    if resumeData?.isLeftBehind(by: request, madeOf: original) == true { resumeData = nil }
    // An interceptor may have made another URL of the same: what came from the one before is no part of that, and nobody else knows of it.
    if let left = failure?.resumeData, !left.isOf(request) {
      if !isGiven(left) { left.discard(temporaryDirectory: temporaryDirectory) }
      resumeData = nil
    }
    do {
      return .saved(try await attempt(request, resumeData))
    } catch let error as SessionError {
      failure = error
      // A serializer may accept every status, but only 2xx makes a file.
      if error.code == .badResponse { return .refused(error) }
      throw error
    } catch {
      failure = Self.sessionError(behind: error) ?? SessionError(.unknown, phase: .receive, message: "\(error)")
      return .refused(error)
    }
  }

  private func isGiven(_ resumeData: ResumeData) -> Bool { given.map { resumeData.hasFile(of: $0) } ?? false }

  /// The error with what the download can be gone on from: what the last attempt left or, before the first, what was given. Where an error cannot have it,
  /// nobody could: then nothing is left of the file, unless it was given.
  func described(_ error: any Error, _ request: Request, temporaryDirectory: String?) -> any Error {
    let left: ResumeData? = if let failure { failure.resumeData } else { given }
    guard let resumeData = left, Self.sessionError(behind: error)?.resumeData == nil else { return error }
    switch error {
    case var error as SessionError:
      error.resumeData = resumeData
      return error
    case is CancellationError:
      var error = SessionError(
        .cancelled, phase: .prepare, message: "the call was cancelled before its next attempt",
        failingURL: request.urlString, requestBytesSent: failure?.requestBytesSent ?? false)
      error.resumeData = resumeData
      return error
    case let error as SerializationError:
      if let failure {
        let ended = error.ending(in: failure)
        if ended.resumeData != nil { return ended }
      }
    default: break
    }
    if !isGiven(resumeData) { resumeData.discard(temporaryDirectory: temporaryDirectory) }
    return error
  }

  private static func sessionError(behind error: any Error) -> SessionError? {
    (error as? SerializationError)?.sessionError ?? error as? SessionError
  }
}
