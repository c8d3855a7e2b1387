internal import Foundation
internal import LupineSession

/// The attempts of an awaited download: each goes on where the one before it stopped, if it can.
struct RepeatedDownload {
  typealias Saved = (file: URL, response: Response)
  /// One task, which goes on from the resume data if there is any.
  typealias Attempt = @Sendable (Request, ResumeData?) async throws -> Saved

  /// What the next attempt goes on from.
  private var resumeData: ResumeData?
  /// Of the last attempt, if it had one.
  private(set) var response: Response?
  /// What the caller gave is the caller's, and stays.
  private let isCallers: Bool
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
    self.resumeData = resumeData
    isCallers = resumeData != nil
    self.attempt = attempt
  }

  mutating func run(_ request: Request, _ retrying: RetryLoop) async throws -> Saved {
    let end = try await retrying.run(request) { request throws(SessionError) in
      try await answer(to: request)
    } refusal: {
      $0.refusal
    }
    switch end {
    case .saved(let saved): return saved
    case .refused(let error): throw error
    }
  }

  private mutating func answer(to request: Request) async throws(SessionError) -> Answer {
    do {
      let saved = try await attempt(request, resumeData)
      (response, resumeData) = (saved.response, nil)
      return .saved(saved)
    } catch let error as SessionError {
      (response, resumeData) = (error.response, error.resumeData)
      // A serializer may accept every status, but only 2xx makes a file.
      if error.code == .badResponse { return .refused(error) }
      throw error
    } catch {
      (response, resumeData) = ((error as? SerializationError)?.response, Self.resumeData(behind: error))
      return .refused(error)
    }
  }

  /// The error with what the download can be gone on from. Where an error cannot have it, nobody could: then nothing is left of the file.
  func described(_ error: any Error, temporaryDirectory: String?) -> any Error {
    guard let resumeData, Self.resumeData(behind: error) == nil else { return error }
    guard var error = error as? SessionError else {
      if !isCallers { resumeData.discard(temporaryDirectory: temporaryDirectory) }
      return error
    }
    error.resumeData = resumeData
    return error
  }

  private static func resumeData(behind error: any Error) -> ResumeData? {
    var next: (any Error)? = error
    while let error = next as? SerializationError { next = error.underlying }
    return (next as? SessionError)?.resumeData
  }
}
