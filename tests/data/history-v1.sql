BEGIN TRANSACTION;
CREATE TABLE lives (life INTEGER PRIMARY KEY, node TEXT NOT NULL, version TEXT NOT NULL,
  started_unix REAL NOT NULL);
INSERT INTO "lives" VALUES(1,'a','0.1.0',1800000000.0);
INSERT INTO "lives" VALUES(2,'a','0.1.0',1800003600.0);
CREATE TABLE requests (number INTEGER PRIMARY KEY, life INTEGER NOT NULL, request TEXT NOT NULL,
  model TEXT NOT NULL, dialect TEXT NOT NULL, path TEXT NOT NULL, client TEXT NOT NULL, run TEXT,
  chain TEXT NOT NULL, origin TEXT, arrived_s REAL NOT NULL, ended_s REAL NOT NULL, ended_unix REAL NOT NULL,
  outcome TEXT NOT NULL, estimated_tokens INTEGER NOT NULL, max_output_tokens INTEGER,
  is_streaming INTEGER NOT NULL, error TEXT NOT NULL, usage TEXT NOT NULL, attempts TEXT NOT NULL);
INSERT INTO "requests" VALUES(1,1,'n0','m','openai','/v1/chat/completions','agent','nightly','',NULL,0.0,2.0,1800000002.0,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"b","embedded","finishes first",null,0.0,0.5,2.0,"done",0]]');
INSERT INTO "requests" VALUES(2,1,'n1','m','openai','/v1/chat/completions','agent','nightly','',NULL,0.1,2.5,1800000002.5,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"a","embedded","finishes first",null,0.5,1.0,2.5,"done",0]]');
INSERT INTO "requests" VALUES(3,1,'n2','m','openai','/v1/chat/completions','agent','nightly','',NULL,0.2,3.0,1800000003.0,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"b","embedded","finishes first",null,1.0,1.5,3.0,"done",0]]');
INSERT INTO "requests" VALUES(4,1,'n3','m','openai','/v1/chat/completions','agent','nightly','',NULL,3.00000000000000044408e-01,3.5,1800000003.5,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"a","embedded","finishes first",null,1.5,2.0,3.5,"done",0]]');
INSERT INTO "requests" VALUES(5,1,'n4','m','openai','/v1/chat/completions','agent','nightly','',NULL,0.4,4.0,1800000004.0,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"b","embedded","finishes first",null,2.0,2.5,4.0,"done",0]]');
INSERT INTO "requests" VALUES(6,1,'alone','m','openai','/v1/chat/completions','me',NULL,'',NULL,20.0,23.0,1800000023.0,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"a","embedded","finishes first",null,20.0,20.5,23.0,"done",0]]');
INSERT INTO "requests" VALUES(7,1,'guest','m','openai','/v1/chat/completions','agent',NULL,'','b',21.0,22.0,1800000022.0,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"a","embedded","finishes first",null,21.0,21.5,22.0,"done",0]]');
INSERT INTO "requests" VALUES(8,1,'guest2','m','openai','/v1/chat/completions','agent',NULL,'','b',21.0,22.0,1800000022.0,'refused',0,NULL,1,'QueueFull: Too many wait.','[10,null,100,null,null,null,null]','[]');
INSERT INTO "requests" VALUES(9,1,'guest3','m','openai','/v1/chat/completions','agent',NULL,'','b',22.0,22.5,1800000022.5,'done',0,NULL,1,'','[10,null,100,null,null,null,null]','[[1,"a","embedded","finishes first",null,22.0,null,22.5,"done",0]]');
COMMIT;
